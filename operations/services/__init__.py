"""What the project, the API and the admin call."""
