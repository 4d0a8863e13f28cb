"""What people do with jobs: admin, API and command line call this and nothing else."""
