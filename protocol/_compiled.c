/* The compiled twin of hot functions, byte for byte what the Python beside it makes; nothing but speed depends on it.

   rocketmq_records   protocol/rocketmq_record.py   stored records -> RocketMQ's, for a pull
   pulled_frame       protocol/codecs/hot_json.py   the same, as the frame of the answer
   pack_batch         protocol/batch_rows.py        the body of a batch -> the log's bytes and the queue's entries
   are_proven         broker/store/proof.py         whether stored records are whole, and where a queue says they are
   record_columns     in _compiled_columns.c        stored records -> columns for Spark
   take_..._sends     in _compiled_sends.c, _compiled_transactions.c
   take_copied        in _compiled_copied.c         a piece of another broker's log -> the queues' entries
   received_head      in _compiled_received.c

   They read bytes of other programs (a batch comes from the network), so every length is checked against what is left
   before it is used. What isn't plain - IPv6 hosts, long topics, flags, odd tags, anything illegal - is left to Python:
   the first by a callable for one record, the second by returning None for the whole batch, which Python then words. */

#include "_compiled.h"

/* How long RocketMQ's record is without body, topic and properties: both hosts IPv4, one byte for the topic. */
enum { ROCKETMQ_FIXED_BYTES = 91 };

/* ---- stored records -> RocketMQ's ---------------------------------------------------------------------------------- */

/* Where the parts of a stored record are, and how long RocketMQ's is. */
typedef struct {
    size_t topic_bytes, properties_at, properties_bytes, body_at, body_bytes, made_bytes;
} Parts;

/* Finds the parts of the record that begins at `from` and has `size` bytes; 0 if Python has to make RocketMQ's of it. */
static int parts_of(const uint8_t *from, uint32_t size, Parts *parts) {
    if (size < RECORD_BYTES_MIN || from[BORN_HOST_HEAD_AT] != 0xC4 || from[BORN_HOST_HEAD_AT + 1] != HOST_V4_BYTES)
        return 0;
    size_t topic_bytes = get16(from + TOPIC_AT + 1);
    size_t properties_at = TOPIC_AT + 3 + topic_bytes + 1;
    if (topic_bytes > TOPIC_BYTES_MAX_V1 || properties_at + 2 > size)
        return 0;
    size_t properties_bytes = get16(from + properties_at);
    size_t body_at = properties_at + 2 + properties_bytes + 5;
    if (properties_bytes > PROPERTIES_BYTES_MAX || body_at > size)
        return 0;
    size_t body_bytes = size - body_at;
    *parts = (Parts){topic_bytes, properties_at, properties_bytes, body_at, body_bytes,
                     ROCKETMQ_FIXED_BYTES + body_bytes + topic_bytes + properties_bytes};
    return 1;
}

/* Writes RocketMQ's record of the stored one, and returns where the next begins. */
static uint8_t *put_rocketmq_record(uint8_t *at, const uint8_t *from, const Parts *parts, const uint8_t *store_host) {
    at = put32(at, (uint32_t)parts->made_bytes);
    at = put32(at, ROCKETMQ_MAGIC_V1);
    at = put(at, from + BODY_CRC_AT, 4);
    at = put(at, from + QUEUE_ID_AT, 4);
    at = put(at, from + FLAG_AT, 4);
    at = put(at, from + QUEUE_OFFSET_AT, 8);
    at = put(at, from + LOG_POSITION_AT, 8);
    at = put32(at, get32(from + SYS_FLAG_AT) & ~0x30u);  /* both hosts are IPv4 */
    at = put(at, from + BORN_MS_AT, 8);
    at = put(at, from + BORN_HOST_AT, HOST_V4_BYTES);
    at = put(at, from + STORED_MS_AT, 8);
    at = put(at, store_host, HOST_V4_BYTES);
    at = put(at, from + RECONSUME_TIMES_AT, 4);
    if (from[PREPARED_POSITION_AT] & 0x80)
        memset(at, 0, 8);  /* below 0: a mark of the broker's own */
    else
        memcpy(at, from + PREPARED_POSITION_AT, 8);
    at = put32(at + 8, (uint32_t)parts->body_bytes);
    at = put(at, from + parts->body_at, parts->body_bytes);
    *at++ = (uint8_t)parts->topic_bytes;
    at = put(at, from + TOPIC_AT + 3, parts->topic_bytes);
    at = put16(at, (uint16_t)parts->properties_bytes);
    return put(at, from + parts->properties_at + 2, parts->properties_bytes);
}

/* RocketMQ's record of a stored one; NULL without an error set if Python has to make it, with one if there is no memory. */
static PyObject *rocketmq_record(const uint8_t *from, uint32_t size, const uint8_t *store_host) {
    Parts parts;
    if (!parts_of(from, size, &parts))
        return NULL;
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)parts.made_bytes);
    if (made != NULL)
        put_rocketmq_record((uint8_t *)PyBytes_AS_STRING(made), from, &parts, store_host);
    return made;
}

static int append_records(PyObject *records, PyObject *stored, const Py_buffer *view, const Py_buffer *store_host,
                          PyObject *otherwise) {
    const uint8_t *data = view->buf;
    Py_ssize_t at = 0;
    while (at < view->len) {
        uint32_t size = view->len - at >= RECORD_BYTES_MIN ? get32(data + at + RECORD_BYTES_AT) : 0;
        PyObject *made = NULL;
        if (size != 0 && (Py_ssize_t)size <= view->len - at && store_host->len == HOST_V4_BYTES)
            made = rocketmq_record(data + at, size, store_host->buf);
        if (made == NULL && !PyErr_Occurred())
            made = PyObject_CallFunction(otherwise, "Oy#n", stored, store_host->buf, store_host->len, at);
        if (made == NULL)
            return -1;
        int failed = PyList_Append(records, made);
        Py_DECREF(made);
        if (failed)
            return -1;
        if (size == 0) {  /* `otherwise` should have raised: never loop on what isn't a record */
            PyErr_SetString(PyExc_ValueError, "not a stored record");
            return -1;
        }
        at += size;
    }
    return 0;
}

static PyObject *rocketmq_records(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "rocketmq_records(slices, store_host, otherwise)");
        return NULL;
    }
    Py_buffer store_host;
    if (PyObject_GetBuffer(arguments[1], &store_host, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *records = PyList_New(0);
    PyObject *slices = PySequence_Fast(arguments[0], "slices: a list or a tuple");
    int failed = records == NULL || slices == NULL;
    for (Py_ssize_t index = 0; !failed && index < PySequence_Fast_GET_SIZE(slices); index++) {
        PyObject *stored = PySequence_Fast_GET_ITEM(slices, index);
        Py_buffer view;
        if (PyObject_GetBuffer(stored, &view, PyBUF_SIMPLE) < 0) {
            failed = 1;
            break;
        }
        failed = append_records(records, stored, &view, &store_host, arguments[2]) < 0;
        PyBuffer_Release(&view);
    }
    Py_XDECREF(slices);
    PyBuffer_Release(&store_host);
    if (failed)
        Py_CLEAR(records);
    return records;
}

/* Bytes of RocketMQ's records of all stored ones in a slice; -1 if Python has to make one of them. */
static Py_ssize_t measure_slice(const Py_buffer *view) {
    const uint8_t *data = view->buf;
    Py_ssize_t at = 0, made_bytes = 0;
    while (at < view->len) {
        uint32_t size = view->len - at >= RECORD_BYTES_MIN ? get32(data + at + RECORD_BYTES_AT) : 0;
        Parts parts;
        if ((Py_ssize_t)size > view->len - at || !parts_of(data + at, size, &parts))
            return -1;
        made_bytes += (Py_ssize_t)parts.made_bytes;
        at += size;
    }
    return made_bytes;
}

/* The frame of a pull over JSON: its head, the header, RocketMQ's records of the stored ones. None if Python has to make
   one of them, or if it is too long. */
static PyObject *pulled_frame(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *given, *frame = NULL;
    Py_buffer store_host, header;
    Py_ssize_t frame_bytes_max;
    if (!PyArg_ParseTuple(arguments, "Oy*y*n:pulled_frame", &given, &store_host, &header, &frame_bytes_max))
        return NULL;
    PyObject *slices = PySequence_Fast(given, "slices: a list or a tuple");
    Py_ssize_t count = slices == NULL ? 0 : PySequence_Fast_GET_SIZE(slices), frame_bytes = 8 + header.len;
    for (Py_ssize_t index = 0; index < count && frame_bytes >= 0; index++) {
        PyObject *stored = PySequence_Fast_GET_ITEM(slices, index);
        Py_buffer view;
        if (PyObject_GetBuffer(stored, &view, PyBUF_SIMPLE) < 0)
            goto end;
        Py_ssize_t made_bytes = store_host.len == HOST_V4_BYTES ? measure_slice(&view) : -1;
        frame_bytes = made_bytes < 0 || frame_bytes + made_bytes > frame_bytes_max ? -1 : frame_bytes + made_bytes;
        PyBuffer_Release(&view);
    }
    if (slices != NULL && frame_bytes < 0)
        frame = Py_NewRef(Py_None);
    else if (slices != NULL && (frame = PyBytes_FromStringAndSize(NULL, frame_bytes)) != NULL) {
        uint8_t *to = put32((uint8_t *)PyBytes_AS_STRING(frame), (uint32_t)frame_bytes - 4);
        to = put(put32(to, (uint32_t)header.len), header.buf, (size_t)header.len);
        for (Py_ssize_t index = 0; index < count; index++) {
            Py_buffer view;
            if (PyObject_GetBuffer(PySequence_Fast_GET_ITEM(slices, index), &view, PyBUF_SIMPLE) < 0) {
                Py_CLEAR(frame);
                goto end;
            }
            const uint8_t *data = view.buf;
            for (Py_ssize_t at = 0; at < view.len; at += get32(data + at + RECORD_BYTES_AT)) {
                Parts parts;
                if (parts_of(data + at, get32(data + at + RECORD_BYTES_AT), &parts))
                    to = put_rocketmq_record(to, data + at, &parts, store_host.buf);
            }
            PyBuffer_Release(&view);
        }
    }
end:
    Py_XDECREF(slices);
    PyBuffer_Release(&store_host);
    PyBuffer_Release(&header);
    return frame;
}

/* ---- a batch -> the log ---------------------------------------------------------------------------------------------- */

enum { BATCH_HEAD_BYTES = 20, MESSAGES_MAX = 1 << 16 };  /* limits.py: BATCH_MESSAGES_MAX */

int code_of_tag(const uint8_t *properties, size_t bytes, int64_t *code) {
    const uint8_t *found = find(properties, bytes, "TAGS\x01", 5);
    *code = 0;
    if (found == NULL)
        return 1;
    if (found != properties && found[-1] != 0x02)
        return 0;
    const uint8_t *tag = found + 5, *end = properties + bytes;
    if (find(tag, (size_t)(end - tag), "TAGS\x01", 5) != NULL)
        return 0;
    const uint8_t *tag_end = memchr(tag, 0x02, (size_t)(end - tag));
    size_t tag_bytes = (size_t)((tag_end == NULL ? end : tag_end) - tag);
    for (size_t index = 0; index < tag_bytes; index++)
        if (tag[index] & 0x80)
            return 0;
    *code = hash_of(tag, tag_bytes);
    return 1;
}

/* Fills in body and properties of `record` and moves `*at` behind the message; 0 if it isn't whole or plain. */
static int next_message(const uint8_t **at, const uint8_t *end, Record *record) {
    const uint8_t *from = *at;
    if (end - from < BATCH_HEAD_BYTES + 2 || get32(from + 12) != 0)
        return 0;
    size_t body_bytes = get32(from + 16);
    if (body_bytes == 0 || body_bytes > (size_t)(end - from) - BATCH_HEAD_BYTES - 2)
        return 0;
    record->body = (Span){from + BATCH_HEAD_BYTES, body_bytes};
    const uint8_t *properties = record->body.at + body_bytes + 2;
    size_t properties_bytes = get16(properties - 2);
    if (properties_bytes > (size_t)(end - properties))
        return 0;
    record->properties = (Span){properties, properties_bytes};
    *at = properties + properties_bytes;
    if (find(properties, properties_bytes, "DEL", 3) != NULL)
        return 0;  /* DELAY and its relatives: it may want to come later */
    if (find(properties, properties_bytes, "TRAN_MSG\x01", 9) != NULL)
        return 0;  /* it may be half a message */
    record->needs_end = properties_bytes > 0 && (*at)[-1] != 0x02;
    return properties_bytes + (size_t)record->needs_end + record->added.bytes <= PROPERTIES_BYTES_MAX;
}

int crc_of(PyObject *crc32, const uint8_t *data, size_t bytes, uint32_t *crc) {
    PyObject *view = PyMemoryView_FromMemory((char *)data, (Py_ssize_t)bytes, PyBUF_READ);
    if (view == NULL)
        return -1;
    PyObject *number = PyObject_CallOneArg(crc32, view);
    Py_DECREF(view);
    if (number == NULL)
        return -1;
    *crc = (uint32_t)PyLong_AsUnsignedLongMask(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- whole or not ---------------------------------------------------------------------------------------------------- */

typedef struct {
    Py_buffer packed_topic;
    PyObject *crc32;
    int queue_id;
} Queue;

/* The queue offset of a record, -1 unless it is whole, at that position and of that queue, -2 with an error set.
   protocol/record.py: proven_offset. */
static int64_t proven_offset(const uint8_t *data, size_t size, int64_t position, const Queue *queue) {
    size_t topic_bytes = (size_t)queue->packed_topic.len;
    if (size < RECORD_BYTES_MIN || memcmp(data, "\xdc\x00\x11\xce", 4) != 0 || get32(data + RECORD_BYTES_AT) != size ||
        data[8] != 0xCE || get32(data + 14) != RECORD_MAGIC || (int64_t)get64(data + LOG_POSITION_AT) != position ||
        (int32_t)get32(data + QUEUE_ID_AT) != queue->queue_id)
        return -1;
    size_t topic_at = BORN_HOST_AT + (size_t)data[BORN_HOST_HEAD_AT + 1], properties_at = topic_at + topic_bytes;
    if (properties_at + 3 > size || memcmp(data + topic_at, queue->packed_topic.buf, topic_bytes) != 0)
        return -1;
    size_t body_at = properties_at + 8 + get16(data + properties_at + 1);
    if (body_at > size)
        return -1;
    uint32_t crc;
    if (crc_of(queue->crc32, data + COVERED_AT, body_at - COVERED_AT, &crc) < 0)
        return -2;
    if (crc != get32(data + 9))
        return -1;
    if (crc_of(queue->crc32, data + body_at, size - body_at, &crc) < 0)
        return -2;
    if ((crc & 0x7FFFFFFFu) != get32(data + BODY_CRC_AT))
        return -1;
    return (int64_t)get64(data + QUEUE_OFFSET_AT);
}

/* 1 if all records are proven and their offsets go up from `least` to below `end`, 0 if not, -1 with an error set. */
static int prove_each(PyObject *slices, PyObject *positions, PyObject *sizes, const Queue *queue, int64_t least,
                      int64_t end) {
    Py_ssize_t count = PySequence_Fast_GET_SIZE(positions), at = 0;
    int is_one = PySequence_Fast_GET_SIZE(slices) == 1;
    if (PySequence_Fast_GET_SIZE(sizes) != count || (!is_one && PySequence_Fast_GET_SIZE(slices) != count))
        return 0;
    for (Py_ssize_t index = 0; index < count; index++) {
        PyObject *slice = PySequence_Fast_GET_ITEM(slices, is_one ? 0 : index);
        int64_t position = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(positions, index));
        Py_ssize_t size = PyLong_AsSsize_t(PySequence_Fast_GET_ITEM(sizes, index));
        if (PyErr_Occurred())
            return -1;
        if (!PyBytes_Check(slice)) {
            PyErr_SetString(PyExc_TypeError, "slices: bytes");
            return -1;
        }
        if (!is_one)
            at = 0;
        if (size < 0 || size > PyBytes_GET_SIZE(slice) - at || (!is_one && size != PyBytes_GET_SIZE(slice)))
            return 0;
        int64_t offset = proven_offset((const uint8_t *)PyBytes_AS_STRING(slice) + at, (size_t)size, position, queue);
        if (offset == -2 && PyErr_Occurred())
            return -1;
        if (offset < least || offset >= end)
            return 0;
        least = offset + 1;
        at += size;
    }
    return 1;
}

static PyObject *are_proven(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Queue queue;
    PyObject *slices, *positions, *sizes;
    long long least, end;
    if (!PyArg_ParseTuple(arguments, "OOOiy*LLO:are_proven", &slices, &positions, &sizes, &queue.queue_id,
                          &queue.packed_topic, &least, &end, &queue.crc32))
        return NULL;
    int proven = -1;
    slices = PySequence_Fast(slices, "slices: a list or a tuple");
    positions = PySequence_Fast(positions, "positions: a list or a tuple");
    sizes = PySequence_Fast(sizes, "sizes: a list or a tuple");
    if (slices != NULL && positions != NULL && sizes != NULL)
        proven = prove_each(slices, positions, sizes, &queue, least, end);
    Py_XDECREF(slices);
    Py_XDECREF(positions);
    Py_XDECREF(sizes);
    PyBuffer_Release(&queue.packed_topic);
    return proven < 0 ? NULL : PyBool_FromLong(proven);
}

/* ---- a batch -> the log: its records ---------------------------------------------------------------------------------- */

uint8_t *put_record(uint8_t *start, uint32_t size, const Record *record, PyObject *crc32) {
    static const uint8_t numbers[] = {0xD2, 0, 0, 0, 0, 0xD2, 0, 0, 0, 0, 0xD2, 0, 0, 0, 0, 0xD3, 0, 0, 0, 0, 0, 0, 0, 0, 0xCE};
    size_t properties_bytes = record->properties.bytes + (size_t)record->needs_end + record->added.bytes;
    uint8_t *body = start + size - record->body.bytes;
    put(body, record->body.at, record->body.bytes);
    uint32_t crc;
    if (record->body_crc != NULL)
        crc = get32(record->body_crc);
    else if (crc_of(crc32, body, record->body.bytes, &crc) < 0)
        return NULL;
    uint8_t *at = put(start, "\xdc\x00\x11\xce", 4);
    at = put32(at, size);
    *at++ = 0xCE;
    at += 4;  /* the CRC of what comes now, once it is there */
    *at++ = 0xCE;
    at = put32(at, RECORD_MAGIC);
    *at++ = 0xD3;
    at = put64(at, (uint64_t)record->position);
    *at++ = 0xD2;
    at = put32(at, (uint32_t)record->queue_id);
    *at++ = 0xD3;
    at = put64(at, (uint64_t)record->queue_offset);
    *at++ = 0xD3;
    at = put64(at, (uint64_t)record->stored_ms);
    *at++ = 0xD3;
    at = put64(at, (uint64_t)record->born_ms);
    at = put(at, numbers, sizeof numbers);
    put32(start + SYS_FLAG_AT, (uint32_t)record->sys_flag);
    put64(start + PREPARED_POSITION_AT, (uint64_t)record->prepared_position);
    at = put32(at, crc & 0x7FFFFFFFu);
    *at++ = 0xC4;
    *at++ = (uint8_t)record->born_host.bytes;
    at = put(at, record->born_host.at, record->born_host.bytes);
    at = put(at, record->packed_topic.at, record->packed_topic.bytes);
    *at++ = 0xC5;
    at = put16(at, (uint16_t)properties_bytes);
    at = put(at, record->properties.at, record->properties.bytes);
    if (record->needs_end)
        *at++ = 0x02;
    at = put(at, record->added.at, record->added.bytes);
    *at++ = 0xC6;
    at = put32(at, (uint32_t)record->body.bytes);
    if (crc_of(crc32, start + COVERED_AT, (size_t)(at - start) - COVERED_AT, &crc) < 0)
        return NULL;
    put32(start + 9, crc);
    return start + size;
}

/* First round: how many bytes all records take, and how many there are; 0 if Python has to look at the batch. `record`
   has what they have in common. */
static int measure(const Py_buffer *batch, Record *record, int64_t record_bytes_max, size_t *bytes, Py_ssize_t *messages) {
    const uint8_t *at = batch->buf, *end = at + batch->len;
    if (find(record->added.at, record->added.bytes, "TAGS\x01", 5) != NULL)
        return 0;
    *bytes = 0;
    *messages = 0;
    while (at < end) {
        if (*messages == MESSAGES_MAX || !next_message(&at, end, record))
            return 0;
        size_t size = size_of_record(record);
        if ((int64_t)size > record_bytes_max)
            return 0;
        *bytes += size;
        ++*messages;
    }
    return *messages > 0;
}

/* Second round: writes records and entries. 1 done, 0 Python has to look at it, -1 an error is set. */
static int write_row(const Py_buffer *batch, Record *record, PyObject *crc32, uint8_t *log, uint8_t *entries,
                     PyObject *positions) {
    const uint8_t *at = batch->buf, *end = at + batch->len;
    for (Py_ssize_t index = 0; at < end; index++) {
        int64_t code;
        if (!next_message(&at, end, record) || !code_of_tag(record->properties.at, record->properties.bytes, &code))
            return 0;
        uint32_t size = (uint32_t)size_of_record(record);
        log = put_record(log, size, record, crc32);
        PyObject *number = log == NULL ? NULL : PyLong_FromLongLong(record->position);
        if (number == NULL)
            return -1;
        PyList_SET_ITEM(positions, index, number);
        entries = put64(put32(put64(entries, (uint64_t)record->position), size), (uint64_t)code);
        record->position += size;
        record->queue_offset++;
    }
    return 1;
}

static PyObject *pack_row(const Py_buffer *batch, Record *record, int64_t record_bytes_max, PyObject *crc32) {
    size_t bytes;
    Py_ssize_t messages;
    if (!measure(batch, record, record_bytes_max, &bytes, &messages))
        Py_RETURN_NONE;
    PyObject *log = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    PyObject *entries = PyBytes_FromStringAndSize(NULL, messages * ENTRY_BYTES);
    PyObject *positions = PyList_New(messages);
    PyObject *result = NULL;
    if (log != NULL && entries != NULL && positions != NULL) {
        int done = write_row(batch, record, crc32, (uint8_t *)PyBytes_AS_STRING(log), (uint8_t *)PyBytes_AS_STRING(entries),
                             positions);
        if (done == 1)
            result = PyTuple_Pack(3, log, entries, positions);
        else if (done == 0)
            result = Py_NewRef(Py_None);
    }
    Py_XDECREF(log);
    Py_XDECREF(entries);
    Py_XDECREF(positions);
    return result;
}

static PyObject *pack_batch(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_buffer batch, added, born_host, packed_topic;
    PyObject *crc32;
    long long log_position, queue_offset, stored_ms, born_ms, record_bytes_max;
    int queue_id;
    if (!PyArg_ParseTuple(arguments, "y*y*LiLLLy*y*LO:pack_batch", &batch, &added, &log_position, &queue_id, &queue_offset,
                          &stored_ms, &born_ms, &born_host, &packed_topic, &record_bytes_max, &crc32)) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return NULL;
        PyErr_Clear();  /* Python says which number is too wide. */
        Py_RETURN_NONE;
    }
    Record record = {
        .position = log_position, .queue_offset = queue_offset, .stored_ms = stored_ms, .born_ms = born_ms,
        .queue_id = queue_id, .born_host = {born_host.buf, (size_t)born_host.len},
        .packed_topic = {packed_topic.buf, (size_t)packed_topic.len}, .added = {added.buf, (size_t)added.len},
    };
    PyObject *result = born_host.len == HOST_V4_BYTES ? pack_row(&batch, &record, record_bytes_max, crc32)
                                                      : Py_NewRef(Py_None);
    PyBuffer_Release(&batch);
    PyBuffer_Release(&added);
    PyBuffer_Release(&born_host);
    PyBuffer_Release(&packed_topic);
    return result;
}

static PyMethodDef methods[] = {
    {"rocketmq_records", (PyCFunction)(void (*)(void))rocketmq_records, METH_FASTCALL,
     "rocketmq_records(slices, store_host, otherwise) -> list[bytes]"},
    {"pulled_frame", pulled_frame, METH_VARARGS, "pulled_frame(slices, store_host, header, frame_bytes_max) -> bytes | None"},
    {"pack_batch", pack_batch, METH_VARARGS,
     "pack_batch(batch, added, log_position, queue_id, queue_offset, stored_ms, born_ms, born_host, packed_topic, "
     "record_bytes_max, crc32) -> (log, entries, positions) | None"},
    {"are_proven", are_proven, METH_VARARGS,
     "are_proven(slices, positions, sizes, queue_id, packed_topic, first_offset, end_offset, crc32) -> bool"},
    {"take_native_sends", take_native_sends, METH_VARARGS,
     "take_native_sends(data, at, stop, (tail, sent, many, ended), (position, room_end, record_bytes_max), body_bytes_max, "
     "stored_ms, born_host, added, find, crc32, halves, has_slaves) -> (at, (log, last_position, rows), answers, halves, ends) | None"},
    {"take_json_sends", take_json_sends, METH_VARARGS,
     "take_json_sends(data, at, stop, (language, version, parts), (position, room_end, record_bytes_max), "
     "body_bytes_max, stored_ms, born_host, added, find, crc32, halves, has_slaves) -> (at, (log, last_position, rows), answers, halves, ends) | None"},
    {"take_copied", take_copied, METH_VARARGS,
     "take_copied(data, at, position, find, crc32) -> (at, last_position, stored_ms, rows) | None"},
    {"received_head", received_head, METH_VARARGS,
     "received_head((properties, body, born_host, sys_flag, born_ms, stored_ms, queue_id, queue_offset), "
     "(topic, digest_head, store_host, kinds), digest, receipt, attempt) -> bytes | None"},
    {"record_columns", record_columns, METH_VARARGS,
     "record_columns(bodies, skip, names, with_body) -> (rows, offsets, stored, born, flags, times, body_offsets, "
     "body_data, properties) | None"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_compiled", "The compiled twin of hot functions; see _compiled.c.", -1, methods,
    NULL, NULL, NULL, NULL,
};

/* What this does, as a number: compiled.py has the same, and takes no module that was built from an older source. */
enum { MADE_FOR = 12 };

PyMODINIT_FUNC PyInit__compiled(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddIntConstant(module, "MADE_FOR", MADE_FOR) < 0)
        Py_CLEAR(module);
    return module;
}
