"""The pull consumer, which a program controls completely: pull_consumer.py."""
