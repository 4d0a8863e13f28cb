"""Servers that stand in for the outside world in the demo, one package for each app."""
