"""Stores messages, hands them out, and keeps what groups have consumed."""
