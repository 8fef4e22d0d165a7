"""What a broker keeps on disk: the commit log, the consume queues made from it, and their recovery.

`store.MessageStore` is the face; `flusher.StoreFlusher` carries out in the background what must wait for the disk.
"""
