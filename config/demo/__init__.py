"""Scenes of the demo, one module for each app."""
