"""All calls to other hosts: venues, their market data, and the AI service."""
