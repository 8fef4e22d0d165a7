"""The pull consumer, which a program drives by itself: pull_consumer.py."""
