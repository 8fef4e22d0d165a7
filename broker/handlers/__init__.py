"""What the broker does for each request, one module per family."""
