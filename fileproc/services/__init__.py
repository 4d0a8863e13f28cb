"""What users and programs do with their documents."""
