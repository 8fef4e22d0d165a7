"""Which brokers there are and which queues each topic has."""
