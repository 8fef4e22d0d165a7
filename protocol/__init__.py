"""The protocol: frames, codecs, commands, messages, names. All of it is pure: bytes in, typed commands out.

Commands:

- `command.py`: how a request and its response are declared; `requests/`: all requests, by family
- `codecs/`: headers and bodies as bytes, one module per codec byte
- `frame_reader.py`: the frames of one connection, bytes in and calls out; `first_bytes.py`: the protocol of its first
  bytes
- `signatures.py`: signatures of requests with an access key
- `codes.py`, `limits.py`, `remarks.py`: RocketMQ's codes, limits and texts, and a few of our own
- `errors.py`: every exception of staticfire, by what the caller can do about it; `documentation.py`: addresses of pages

Messages:

- `messages.py`: messages as programs send and receive them
- `record.py`: a message in the commit log; `record_copies.py`: records made from other records
- `rocketmq_record.py`: RocketMQ's binary form of records and batches; `batch_rows.py`: a batch as rows of records
- `compiled.py`: the compiled version of hot functions, if there is one
- `recall_handle.py`: the handle by which a message is recalled
- `pop_handles.py`, `batch_acks.py`: the handles by which popped messages are acknowledged, single or in batches
- `properties.py`, `sys_flag.py`, `compression.py`, `checksums.py`: parts of a record
- `message_ids.py`, `hosts.py`: the two ids of a message, and the addresses in them
- `lazy_names.py`: names of a package that are imported when they are first used
- `tags.py`: subscriptions, and the messages that they match; `sql92/`: conditions on properties
- `delay_levels.py`: the delay of each level; `trace.py`: the history of a message, as text

Names and notations:

- `names.py`, `permissions.py`: names and permissions of topics and groups; `lag.py`: the lag of a group in a queue
- `numbers.py`: int and long, with their ranges; `nouns.py`: numbers in sentences; `times.py`: message time and uptime
  as two types
- `clock_face.py`, `clock_words.py`, `durations.py`: a clock that can be set, and the texts that set it
- `fastjson.py`: JSON as RocketMQ writes and reads it, made of `fastjson_writer.py`, `fastjson_reader.py` (lenient) and
  `fastjson_shape.py` (into classes)
- `java_properties.py`: the text of a properties file
"""
