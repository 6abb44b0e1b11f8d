"""Authentication with model services: access tokens, their sources and renewal."""

SCOPE = "https://www.googleapis.com/auth/cloud-platform"


LOGIN = "gcloud auth application-default login"
