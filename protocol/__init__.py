"""Pure: frames, codecs, commands, messages, names. Bytes in, typed commands out.

Commands:

- `command.py`: what a request and its answer are, and how one is declared; `requests/`: all of them, by family
- `codecs/`: headers and bodies as bytes, one module per codec byte
- `frame_reader.py`: the frames of one connection, bytes in and calls out
- `codes.py`, `limits.py`, `remarks.py`: numbers, maxima and words that are RocketMQ's or agreed on
- `errors.py`: every exception of staticfire, by what the caller can do about it

Messages:

- `messages.py`: what programs send and receive
- `record.py`: a message in the commit log; `plain_records.py`: the common kind, packed quickly;
  `record_copies.py`: made of others
- `rocketmq_record.py`: RocketMQ's binary form of records and batches; `batch_rows.py`: a batch as rows of records
- `compiled.py`: the compiled twin of hot functions, where there is one
- `recall_handle.py`: by what a message is called back
- `pop_handles.py`, `batch_acks.py`: by what popped messages are acknowledged, one by one and many at once
- `properties.py`, `sys_flag.py`, `compression.py`, `checksums.py`: parts of a record
- `message_ids.py`, `hosts.py`: the two ids of a message, and the addresses in them
- `lazy_names.py`: names of a package that are imported when they are first asked for
- `tags.py`: subscriptions, and which messages they match; `sql92/`: conditions over properties
- `delay_levels.py`: how long level n waits; `trace.py`: what became of a message, as text

Names and notations:

- `names.py`, `permissions.py`: topics and groups, and what may be done with them
- `numbers.py`: int and long, with their ranges; `times.py`: message time and uptime as two types
- `clock_face.py`, `clock_words.py`, `durations.py`: a clock that can be set, and the words to set it with
- `fastjson.py`: JSON as RocketMQ writes and reads it, made of `fastjson_writer.py`, `fastjson_reader.py` (lenient) and
  `fastjson_shape.py` (into classes)
- `java_properties.py`: the text of a properties file
"""
