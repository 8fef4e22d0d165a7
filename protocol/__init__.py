"""Pure: frames, codecs, commands, messages, names, tags, delay levels, routes, errors. Bytes in, typed commands out."""
