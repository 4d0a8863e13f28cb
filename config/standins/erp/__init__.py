"""A stand-in for an ERP: its own process, its state on disk, and scripted faults."""
