"""The broker's data on disk: the commit log, the consume queues derived from it, and their recovery.

- `store.py`: `MessageStore`, the API and only owner of the files; `settings.py`: its sizes and periods
- `new_record.py`: a message to store
- `appender.py`: records that were appended but not yet written; `settling.py`: when callers are notified that their
  records are stored; `outcomes.py`: results of appends and reads
- `commit_log.py`: all records, one after another; `segments.py`: its files; `log_sync.py`: one fsync of it
- `consume_queue.py`: positions of one queue's records; `queue_start.py`: its first offset; `queue_table.py`: all
  queues; `queue_files.py`: their files; `queue_ends.py`: their end offsets, saved so that a lost file is noticed;
  `short_queues.py`: rebuild of such queues
- `reading.py`: messages from an offset on; `time_search.py`: an offset by time
- `flusher.py`: background flush of log and queues; `flush_round.py`: one round of it
- `left_behind.py`: what the last process left, before the log is read; `recovery.py`: makes log and queues agree;
  `entering.py`: enters records into their queues; `log_scan.py`: reads records without trusting them; `damage.py`:
  examines what follows a damaged place, and moves damaged parts aside
- `proof.py`: checks what a read returns and repairs wrong entries; `findings.py`: counts and reports damage
- `copied.py`: appends pieces of another broker's log; `cutting.py`: cuts the end off a closed store
- `scrub.py`: checks the log in the background
- `state_files.py`: the small files next to the log; `sealed.py`: their checksums; `formats.py`: the version of a folder
"""
