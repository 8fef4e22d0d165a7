"""What a broker keeps on disk: the commit log, the consume queues made from it, and their recovery.

- `store.py`: `MessageStore`, the face and only owner of the files; `settings.py`: its sizes and periods
- `new_record.py`: a message that is to be stored
- `appender.py`: records that were appended and not written yet; `settling.py`: who learns
  that they are stored, and when; `outcomes.py`: how appends and reads end
- `commit_log.py`: all records in one row; `segments.py`: its files; `log_sync.py`: bringing them to the disk
- `consume_queue.py`: where one queue's records are; `queue_start.py`: where it begins; `queue_table.py`: all queues;
  `queue_files.py`: their files; `queue_ends.py`: where they ended, noted so that a lost file is missed;
  `short_queues.py`: making such queues anew
- `reading.py`: messages from an offset on; `time_search.py`: an offset by time
- `flusher.py`: brings everything to the disk in the background; `flush_round.py`: one round of it
- `left_behind.py`: what the last process left, before the log is read; `recovery.py`: log and queues agree again;
  `entering.py`: records into their queues; `log_scan.py`: records, read without trust; `damage.py`: what lies
  behind a damaged place, and moving that aside
- `proof.py`: checks what a read hands out and mends wrong entries; `findings.py`: counts and tells what was damaged
- `scrub.py`: looks through the log in the background
- `state_files.py`: the small files beside the log; `sealed.py`: their checksums; `formats.py`: of
  which version a folder is
"""
