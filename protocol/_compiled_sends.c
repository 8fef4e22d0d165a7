/* The compiled twin of a plain send's whole way: from the frames of a connection to the log's bytes, the queues' entries
   and the answers. What the Python road makes of the same frames, request by request, is the same to the byte
   (broker/handlers/send_runs.py says where that road is); nothing but speed depends on this.

   take_native_sends   SEND_MESSAGE, SEND_MANY and END_TRANSACTION of codec 2
   take_json_sends     SEND_MESSAGE of codec 0, both spellings, and END_TRANSACTION

   What is special about the halves of transactions is in _compiled_transactions.c.

   Both stop at the first frame that isn't plain, and Python goes on from there: whatever may be refused, has to wait,
   is compressed, carries a flag, or just looks unusual. So every refusal is worded once. What comes from the network is
   measured against what is left before it is read. */

#include "_compiled_runs.h"

#include <limits.h>

enum { PACKED_TOPIC_HEAD_BYTES = 3, SEND_MANY_TAKEN_MAX = 16384, HEADER_BYTES_MAX = 1 << 20 };

/* ---- bytes that grow ------------------------------------------------------------------------------------------------ */

uint8_t *grow(Growing *growing, size_t more) {
    if (growing->size + more > growing->room || growing->bytes == NULL) {  /* Room for no bytes has an address, too. */
        size_t room = growing->size + more > 2 * growing->room ? growing->size + more : 2 * growing->room;
        if (growing->bytes == NULL)
            growing->bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)room);
        else
            _PyBytes_Resize(&growing->bytes, (Py_ssize_t)room);
        growing->room = growing->bytes == NULL ? 0 : room;
        if (growing->bytes == NULL)
            return NULL;
    }
    uint8_t *at = (uint8_t *)PyBytes_AS_STRING(growing->bytes) + growing->size;
    growing->size += more;
    return at;
}

/* The bytes, of which nobody else knows. */
static PyObject *grown(Growing *growing) {
    PyObject *bytes = growing->bytes;
    if (bytes == NULL)
        return PyBytes_FromStringAndSize(NULL, 0);
    growing->bytes = NULL;
    _PyBytes_Resize(&bytes, (Py_ssize_t)growing->size);
    return bytes;
}

/* ---- one run of sends ------------------------------------------------------------------------------------------------ */

static int is_host(const Py_buffer *host) { return host->len == HOST_V4_BYTES || host->len == HOST_V6_BYTES; }

static void begin(Run *run) {
    memset(run->heads, -1, sizeof run->heads);
    run->halves_place = -1;
    run->log.room = (run->stop > run->at ? (size_t)(run->stop - run->at) / 4 * 5 : 0) + 1024;
    run->log.bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)run->log.room);
}

/* What Python says of transactions, or None; 0 if it isn't that. */
static int know_halves(Run *run, PyObject *halves) {
    if (halves == Py_None)
        return 1;
    return PyTuple_Check(halves) &&
           PyArg_ParseTuple(halves, "O!OL", &PyDict_Type, &run->recent, &run->find_halves, &run->timeout_ms);
}

PyObject *rows_of(Run *run) {
    PyObject *rows = PyList_New(0);
    for (size_t index = 0; rows != NULL && index < run->place_count; index++) {
        Place *place = &run->places[index];
        if (place->entries.size == 0)
            continue;
        PyObject *entries = grown(&place->entries);
        PyObject *row = entries == NULL ? NULL : Py_BuildValue("ONL", PyTuple_GET_ITEM(place->found, 0), entries, place->record_bytes);
        if (row == NULL || PyList_Append(rows, row) < 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

void free_places(Run *run) {
    for (size_t index = 0; index < run->place_count; index++) {
        Py_XDECREF(run->places[index].found);
        Py_XDECREF(run->places[index].entries.bytes);
    }
    PyMem_Free(run->places);
}

/* The half messages that were stored, and those that ended: what `TakenTransactions` says. */
static PyObject *transactions_of(Run *run) {
    if (run->begun == NULL && run->ends == NULL)
        return Py_NewRef(Py_None);
    if (run->begun == NULL)
        run->begun = PyDict_New();
    if (run->kept == NULL)
        run->kept = PyDict_New();
    if (run->ends == NULL)
        run->ends = PyList_New(0);
    if (run->begun == NULL || run->kept == NULL || run->ends == NULL)
        return NULL;
    return PyTuple_Pack(3, run->begun, run->kept, run->ends);
}

/* What was taken, None if it is nothing; NULL with an error set if there is one. Frees the rest. */
static PyObject *end(Run *run) {
    PyObject *taken = NULL;
    if (!PyErr_Occurred() && run->messages == 0 && run->ends == NULL)
        taken = Py_NewRef(Py_None);
    else if (!PyErr_Occurred()) {
        PyObject *log = grown(&run->log), *rows = rows_of(run), *answers = grown(&run->answers);
        PyObject *transactions = transactions_of(run);
        if (log != NULL && rows != NULL && answers != NULL && transactions != NULL)
            taken = Py_BuildValue("n(OLO)OO", run->at, log, run->last_position, rows, answers, transactions);
        Py_XDECREF(transactions);
        Py_XDECREF(log);
        Py_XDECREF(rows);
        Py_XDECREF(answers);
    }
    free_places(run);
    Py_XDECREF(run->log.bytes);
    Py_XDECREF(run->answers.bytes);
    Py_XDECREF(run->text.bytes);
    Py_XDECREF(run->more.bytes);
    Py_XDECREF(run->begun);
    Py_XDECREF(run->kept);
    Py_XDECREF(run->ends);
    Py_XDECREF(run->group);
    PyMem_Free(run->order);
    PyBuffer_Release(&run->data);
    PyBuffer_Release(&run->added);
    PyBuffer_Release(&run->born_host);
    return taken;
}

/* Takes back the messages behind the first `messages`, whose log began at `position` and whose answers at `answers`. */
static void take_back(Run *run, size_t messages, long long position, long long last_position, size_t answers) {
    while (run->messages > messages) {
        Place *place = &run->places[run->order[--run->messages]];
        place->next_offset--;
        place->entries.size -= ENTRY_BYTES;
        place->record_bytes -= get32((const uint8_t *)PyBytes_AS_STRING(place->entries.bytes) + place->entries.size + 8);
    }
    run->log.size -= (size_t)(run->position - position);
    run->position = position;
    run->last_position = last_position;
    run->answers.size = answers;
}

/* ---- where a message goes -------------------------------------------------------------------------------------------- */

static int more_places(Run *run) {
    if (run->place_count < run->place_room)
        return 1;
    size_t room = run->place_room == 0 ? 8 : 2 * run->place_room;
    Place *places = PyMem_Realloc(run->places, room * sizeof *places);
    if (places == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    run->places = places;
    run->place_room = room;
    return 1;
}

int add_place(Run *run, PyObject *found, int32_t queue_id, int32_t next) {
    PyObject *queue, *packed_topic;
    long long next_offset;
    if (!more_places(run) || !PyArg_ParseTuple(found, "OSL", &queue, &packed_topic, &next_offset) ||
        PyBytes_GET_SIZE(packed_topic) < PACKED_TOPIC_HEAD_BYTES) {
        Py_DECREF(found);
        return -1;
    }
    const uint8_t *packed = (const uint8_t *)PyBytes_AS_STRING(packed_topic);
    size_t bytes = (size_t)PyBytes_GET_SIZE(packed_topic);
    run->places[run->place_count] = (Place){
        .topic = {packed + PACKED_TOPIC_HEAD_BYTES, bytes - PACKED_TOPIC_HEAD_BYTES}, .queue_id = queue_id, .next = next,
        .found = found, .packed_topic = {packed, bytes}, .next_offset = next_offset,
    };
    return (int)run->place_count++;
}

/* Asks Python for the queue of a message and files the answer under `hash`; -1 if there is none, or an error is set. */
static int new_place(Run *run, const Send *send, size_t hash) {
    PyObject *topic = PyUnicode_DecodeUTF8((const char *)send->topic.at, (Py_ssize_t)send->topic.bytes, NULL);
    if (topic == NULL) {
        if (PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
            PyErr_Clear();
        return -1;
    }
    PyObject *found = PyObject_CallFunction(run->find, "Ni", topic, (int)send->queue_id);
    if (found == NULL || found == Py_None) {
        Py_XDECREF(found);
        return -1;
    }
    int index = add_place(run, found, send->queue_id, run->heads[hash]);
    if (index >= 0)
        run->heads[hash] = index;
    return index;
}

int place_of(Run *run, const Send *send) {
    size_t hash = (size_t)send->queue_id + send->topic.bytes * 7;
    if (send->topic.bytes > 0)
        hash += (size_t)send->topic.at[send->topic.bytes - 1] * 5 + (size_t)send->topic.at[send->topic.bytes / 2] * 3;
    hash %= HASHES;
    for (int index = run->heads[hash]; index >= 0; index = run->places[index].next) {
        const Place *place = &run->places[index];
        if (place->queue_id == send->queue_id && place->topic.bytes == send->topic.bytes &&
            memcmp(place->topic.at, send->topic.at, send->topic.bytes) == 0)
            return index;
    }
    return new_place(run, send, hash);
}

static int ends_with(const uint8_t *name, size_t bytes, const char *wanted, size_t wanted_bytes) {
    return bytes >= wanted_bytes && memcmp(name + bytes - wanted_bytes, wanted, wanted_bytes) == 0;
}

static int is_ascii(Span span) {
    size_t at = 0;
    uint64_t all = 0, word;
    for (; at + 8 <= span.bytes; at += 8) {
        memcpy(&word, span.at + at, 8);
        all |= word;
    }
    for (; at < span.bytes; at++)
        all |= span.at[at];
    return (all & 0x8080808080808080u) == 0;
}

/* One property of a message: 0 if it means more than to be stored. */
static int look_at_property(const Run *run, Send *send, const uint8_t *name, const uint8_t *name_end, const uint8_t *value_end) {
    size_t name_bytes = (size_t)(name_end - name), value_bytes = (size_t)(value_end - name_end) - 1;
    const uint8_t *value = name_end + 1;
    if (memchr(value, 0x01, value_bytes) != NULL)
        return 0;
    if (is(name, name_bytes, "UNIQ_KEY", 8))
        send->unique_id = (Span){value, value_bytes};
    else if (is(name, name_bytes, "TAGS", 4))
        send->tags_code = hash_of(value, value_bytes);
    else if (is(name, name_bytes, "PGROUP", 6))
        send->group = (Span){value, value_bytes};
    else if (is(name, name_bytes, "WAIT", 4))
        return !run->has_slaves || is(value, value_bytes, "true", 4);
    else if (is(name, name_bytes, "TRAN_MSG", 8))
        return run->recent != NULL && !send->is_half && (send->is_half = is(value, value_bytes, "true", 4));
    else if (ends_with(name, name_bytes, "TAGS", 4) || ends_with(name, name_bytes, "CLUSTER", 7) ||
             ends_with(name, name_bytes, "MSG_REGION", 10) || ends_with(name, name_bytes, "POP_CK", 6) ||
             ends_with(name, name_bytes, "TRAN_MSG", 8))
        return 0;
    else
        return 1;
    return value_bytes > 0;
}

/* What broker/sends/sending.py finds in the properties of a message: 0 unless they are plain. */
static int look_at_properties(const Run *run, Send *send) {
    Span all = send->properties;
    send->tags_code = 0;
    send->unique_id.bytes = send->group.bytes = 0;
    send->is_half = 0;
    if (all.bytes == 0 || all.bytes + (size_t)run->added.len > PROPERTIES_BYTES_MAX || all.at[all.bytes - 1] != 0x02 ||
        !is_ascii(all) || find(all.at, all.bytes, "DEL", 3) != NULL)
        return 0;
    const uint8_t *at = all.at, *end = at + all.bytes;
    while (at < end) {
        const uint8_t *value_end = memchr(at, 0x02, (size_t)(end - at));
        const uint8_t *name_end = memchr(at, 0x01, (size_t)(value_end - at));
        if (name_end != NULL && !look_at_property(run, send, at, name_end, value_end))
            return 0;
        at = value_end + 1;
    }
    return send->unique_id.bytes > 0;
}

int add_record(Run *run, int index, Record *record, int64_t tags_code) {
    Place *place = &run->places[index];
    record->position = run->position;
    record->queue_id = place->queue_id;
    record->queue_offset = place->next_offset;
    record->packed_topic = place->packed_topic;
    size_t size = size_of_record(record);
    if (run->messages == run->order_room) {
        size_t room = run->order_room == 0 ? 64 : 2 * run->order_room;
        uint32_t *order = PyMem_Realloc(run->order, room * sizeof *order);
        if (order == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        run->order = order;
        run->order_room = room;
    }
    uint8_t *log = grow(&run->log, size), *entry = log == NULL ? NULL : grow(&place->entries, ENTRY_BYTES);
    if (entry == NULL || put_record(log, (uint32_t)size, record, run->crc32) == NULL)
        return -1;
    put64(put32(put64(entry, (uint64_t)run->position), (uint32_t)size), (uint64_t)tags_code);
    run->last_position = run->position;
    place->next_offset++;
    place->record_bytes += (long long)size;
    run->position += (long long)size;
    run->order[run->messages++] = (uint32_t)index;
    return 1;
}

/* Makes record and entry of a message whose properties were looked at: 1 done, 0 it isn't plain, -1 an error is set. */
static int put_send(Run *run, Send *send) {
    if (send->body.bytes == 0 || send->body.bytes > (size_t)run->body_bytes_max ||
        (send->sys_flag != 0 && !(send->is_half && send->sys_flag == SYS_FLAG_PREPARED)))
        return 0;
    int index = place_of(run, send), done = 1;
    if (index < 0)
        return PyErr_Occurred() ? -1 : 0;
    Span added = {run->added.buf, (size_t)run->added.len};
    if (send->is_half && (done = make_half(run, send, &index, &added)) != 1)
        return done;
    Record record = {
        .stored_ms = run->stored_ms, .born_ms = send->born_ms, .born_host = {run->born_host.buf, (size_t)run->born_host.len},
        .packed_topic = run->places[index].packed_topic, .properties = send->properties, .added = added, .body = send->body,
    };
    size_t size = size_of_record(&record);
    if ((long long)size > run->record_bytes_max || run->position + (long long)size > run->room_end)
        return 0;
    done = add_record(run, index, &record, send->tags_code);
    send->position = record.position;
    send->queue_offset = record.queue_offset;
    return done == 1 && send->is_half ? note_half(run, send, size) : done;
}

static uint8_t *put_hex(uint8_t *at, uint64_t number) {
    for (int shift = 60; shift >= 0; shift -= 4)
        *at++ = (uint8_t)"0123456789ABCDEF"[number >> shift & 0xF];
    return at;
}

/* ---- msgpack --------------------------------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *at, *end;
    int is_broken;  /* or unusual: Python looks at it */
} Reader;

static uint64_t number_of(Reader *reader, size_t bytes) {
    uint64_t number = 0;
    if ((size_t)(reader->end - reader->at) < bytes) {
        reader->is_broken = 1;
        return 0;
    }
    while (bytes-- > 0)
        number = number << 8 | *reader->at++;
    return number;
}

static int64_t read_int(Reader *reader, int64_t least, int64_t most) {
    uint8_t mark = (uint8_t)number_of(reader, 1);
    int64_t number = 0;
    if (mark < 0x80 || mark >= 0xE0)
        number = (int8_t)mark;
    else if (mark >= 0xCC && mark <= 0xCF) {
        uint64_t unsigned_number = number_of(reader, (size_t)1 << (mark - 0xCC));
        reader->is_broken |= unsigned_number > INT64_MAX;
        number = (int64_t)unsigned_number;
    } else if (mark >= 0xD0 && mark <= 0xD3) {
        size_t bytes = (size_t)1 << (mark - 0xD0);
        uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
        number = (int64_t)((number_of(reader, bytes) ^ sign) - sign);
    } else
        reader->is_broken = 1;
    reader->is_broken |= number < least || number > most;
    return number;
}

static int32_t read_int32(Reader *reader) { return (int32_t)read_int(reader, INT32_MIN, INT32_MAX); }

static Span read_span(Reader *reader, size_t bytes) {
    if (reader->is_broken || (size_t)(reader->end - reader->at) < bytes) {
        reader->is_broken = 1;
        return (Span){reader->end, 0};
    }
    Span span = {reader->at, bytes};
    reader->at += bytes;
    return span;
}

static Span read_text(Reader *reader) {
    uint8_t mark = (uint8_t)number_of(reader, 1);
    if (mark >= 0xA0 && mark < 0xC0)
        return read_span(reader, mark & 0x1F);
    if (mark >= 0xD9 && mark <= 0xDB)
        return read_span(reader, (size_t)number_of(reader, (size_t)1 << (mark - 0xD9)));
    reader->is_broken = 1;
    return (Span){reader->end, 0};
}

static Span read_bytes(Reader *reader) {
    uint8_t mark = (uint8_t)number_of(reader, 1);
    if (mark >= 0xC4 && mark <= 0xC6)
        return read_span(reader, (size_t)number_of(reader, (size_t)1 << (mark - 0xC4)));
    reader->is_broken = 1;
    return (Span){reader->end, 0};
}

/* A text that nobody needs here: of ASCII, so that it is a text. */
static void skip_text(Reader *reader) { reader->is_broken |= !is_ascii(read_text(reader)); }

static size_t read_array(Reader *reader) {
    uint8_t mark = (uint8_t)number_of(reader, 1);
    if (mark >= 0x90 && mark < 0xA0)
        return mark & 0xF;
    if (mark == 0xDC || mark == 0xDD)
        return (size_t)number_of(reader, mark == 0xDC ? 2 : 4);
    reader->is_broken = 1;
    return 0;
}

static int next_is(Reader *reader, uint8_t mark) {
    if (reader->at == reader->end || *reader->at != mark)
        return 0;
    reader->at++;
    return 1;
}

static uint8_t *put_uint(uint8_t *at, uint64_t number) {
    if (number < 0x80)
        *at++ = (uint8_t)number;
    else if (number <= 0xFF) {
        *at++ = 0xCC;
        *at++ = (uint8_t)number;
    } else if (number <= 0xFFFF) {
        *at++ = 0xCD;
        at = put16(at, (uint16_t)number);
    } else if (number <= 0xFFFFFFFF) {
        *at++ = 0xCE;
        at = put32(at, (uint32_t)number);
    } else {
        *at++ = 0xCF;
        at = put64(at, number);
    }
    return at;
}

/* ---- sends of codec 2 (protocol/codecs/native.py draws the frame) ---------------------------------------------------- */

enum { ENVELOPE_BYTES = 25, CODE_AT = 10, OPAQUE_AT = 15, TAIL_AT = 19, TAIL_BYTES = 6 };
/* Of the answer to one message (hot_native.py draws it). */
enum { SENT_POSITION_AT = 44, SENT_QUEUE_ID_AT = 61, SENT_OFFSET_AT = 66, SENT_UNIQUE_ID_AT = 76, UNIQUE_ID_BYTES = 32 };
enum { RESULT_BYTES_MAX = 26, ARRAY_HEAD_BYTES_MAX = 5 };

typedef struct {
    Py_buffer tail, sent, many, ended;
    /* What stands between opaque and fields; an answer to a message, one to many without its results, one to the end of
       a transaction. */
} Native;

static int take_native_send(Run *run, const Native *native, Reader *fields, Span body, uint32_t opaque) {
    Send send = {.body = body};
    size_t count = read_array(fields);
    if (count < 9 || count > 14)
        return 0;
    skip_text(fields);  /* producer group */
    send.topic = read_text(fields);
    skip_text(fields);  /* default topic, and how many queues */
    read_int32(fields);
    send.queue_id = read_int32(fields);
    send.sys_flag = read_int32(fields);
    send.born_ms = read_int(fields, INT64_MIN, INT64_MAX);
    if (read_int32(fields) != 0)  /* flag */
        return 0;
    send.properties = read_text(fields);
    if (count > 9 && !next_is(fields, 0xC0) && !next_is(fields, 0))  /* reconsume times */
        return 0;
    if (count > 10 && !next_is(fields, 0xC0) && !next_is(fields, 0xC2) && !next_is(fields, 0xC3))  /* unit mode */
        return 0;
    if (count > 11 && !next_is(fields, 0xC0))  /* max reconsume times */
        read_int32(fields);
    if (count > 12 && !next_is(fields, 0xC0) && !next_is(fields, 0xC2))  /* batch */
        return 0;
    if (count > 13 && !next_is(fields, 0xC0))  /* broker name */
        skip_text(fields);
    if (fields->is_broken || fields->at != fields->end || !look_at_properties(run, &send) ||
        send.unique_id.bytes != UNIQUE_ID_BYTES)
        return 0;
    int done = put_send(run, &send);
    if (done != 1)
        return done;
    uint8_t *answer = grow(&run->answers, (size_t)native->sent.len);
    if (answer == NULL)
        return -1;
    put(answer, native->sent.buf, (size_t)native->sent.len);
    put32(answer + OPAQUE_AT, opaque);
    put_hex(answer + SENT_POSITION_AT, (uint64_t)send.position);
    put32(answer + SENT_QUEUE_ID_AT, (uint32_t)send.queue_id);
    put64(answer + SENT_OFFSET_AT, (uint64_t)send.queue_offset);
    put(answer + SENT_UNIQUE_ID_AT, send.unique_id.at, UNIQUE_ID_BYTES);
    return 1;
}

/* One message of many, and its result: 1 done, 0 it isn't plain, -1 an error is set. */
static int take_one_of_many(Run *run, Reader *body) {
    size_t count = read_array(body);
    if (count < 4 || count > 7)
        return 0;
    Send send = {.topic = read_text(body)};
    send.queue_id = read_int32(body);
    send.properties = read_bytes(body);
    send.body = read_bytes(body);
    if ((count > 4 && read_int32(body) != 0) || (count > 5 && read_int32(body) != 0))  /* sys flag, flag */
        return 0;
    send.born_ms = count > 6 ? read_int(body, INT64_MIN, INT64_MAX) : 0;
    if (body->is_broken || !look_at_properties(run, &send) || send.is_half)
        return 0;
    int done = put_send(run, &send);
    if (done != 1)
        return done;
    uint8_t *start = grow(&run->answers, RESULT_BYTES_MAX), *at = start;
    if (start == NULL)
        return -1;
    *at++ = 0x95;
    *at++ = 0;  /* stored */
    at = put_uint(at, (uint64_t)send.queue_id);
    at = put_uint(at, (uint64_t)send.queue_offset);
    at = put_uint(at, (uint64_t)send.position);
    *at++ = 0xC0;
    run->answers.size -= RESULT_BYTES_MAX - (size_t)(at - start);
    return 1;
}

static int take_each_of_many(Run *run, Reader *body, size_t count) {
    uint8_t *start = grow(&run->answers, ARRAY_HEAD_BYTES_MAX), *at = start;
    if (start == NULL)
        return -1;
    if (count < 16)
        *at++ = (uint8_t)(0x90 | count);
    else {
        *at++ = 0xDC;
        at = put16(at, (uint16_t)count);
    }
    run->answers.size -= ARRAY_HEAD_BYTES_MAX - (size_t)(at - start);
    while (count-- > 0) {
        int done = take_one_of_many(run, body);
        if (done != 1)
            return done;
    }
    return body->at == body->end;
}

static int take_many(Run *run, const Native *native, Reader *fields, Span body, uint32_t opaque) {
    Reader messages = {body.at, body.at + body.bytes, 0};
    if (read_array(fields) != 3)
        return 0;
    skip_text(fields);  /* producer group; default topic, and how many queues */
    skip_text(fields);
    read_int32(fields);
    size_t count = read_array(&messages), answer_at = run->answers.size, taken = run->messages;
    if (fields->is_broken || fields->at != fields->end || messages.is_broken || count == 0 || count > SEND_MANY_TAKEN_MAX)
        return 0;
    long long position = run->position, last_position = run->last_position;
    uint8_t *answer = grow(&run->answers, (size_t)native->many.len);
    if (answer == NULL)
        return -1;
    put(answer, native->many.buf, (size_t)native->many.len);
    int done = take_each_of_many(run, &messages, count);
    if (done == 0)
        take_back(run, taken, position, last_position, answer_at);
    else if (done == 1) {
        answer = (uint8_t *)PyBytes_AS_STRING(run->answers.bytes) + answer_at;
        put32(answer, (uint32_t)(run->answers.size - answer_at - 4));
        put32(answer + OPAQUE_AT, opaque);
    }
    return done;
}

static int take_native_end(Run *run, const Native *native, Reader *fields, End *end) {
    size_t count = read_array(fields);
    if (count < 4 || count > 8)
        return 0;
    end->group = read_text(fields);
    end->queue_offset = read_int(fields, INT64_MIN, INT64_MAX);
    end->position = read_int(fields, INT64_MIN, INT64_MAX);
    end->kind = read_int32(fields);
    if (count > 4 && !next_is(fields, 0xC0) && !next_is(fields, 0xC2))  /* from a transaction check */
        return 0;
    if (count > 5)  /* message id */
        skip_text(fields);
    for (size_t field = 6; field < count; field++)  /* transaction id, topic */
        if (!next_is(fields, 0xC0))
            skip_text(fields);
    if (fields->is_broken || fields->at != fields->end || !is_ascii(end->group))
        return 0;
    int done = end_half(run, end);
    if (done != 1 || end->is_oneway)
        return done;
    uint8_t *answer = grow(&run->answers, (size_t)native->ended.len);
    if (answer == NULL)
        return -1;
    put(answer, native->ended.buf, (size_t)native->ended.len);
    put32(answer + OPAQUE_AT, (uint32_t)end->opaque);
    return 1;
}

/* The next frame: 1 taken, 0 it isn't plain, -1 an error is set. */
static int take_native_frame(Run *run, const Native *native) {
    const uint8_t *frame = (const uint8_t *)run->data.buf + run->at;
    size_t left = (size_t)(run->data.len - run->at);
    if (left < ENVELOPE_BYTES)
        return 0;
    size_t length = get32(frame), word = get32(frame + 4), header_bytes = word & 0xFFFFFF;
    if (word >> 24 != 2 || frame[8] != 0x97 || frame[9] != 0xCE || frame[14] != 0xCE ||
        memcmp(frame + TAIL_AT + 1, (const uint8_t *)native->tail.buf + 1, TAIL_BYTES - 1) != 0 || header_bytes < ENVELOPE_BYTES - 8 ||
        header_bytes > HEADER_BYTES_MAX || length < 4 + header_bytes || length + 4 > left)
        return 0;
    const uint8_t *body_at = frame + 8 + header_bytes, *frame_end = frame + 4 + length;
    Reader fields = {frame + ENVELOPE_BYTES, body_at, 0};
    Span body = {body_at, (size_t)(frame_end - body_at)};
    uint32_t code = get32(frame + CODE_AT), opaque = get32(frame + OPAQUE_AT);
    int done = 0, flag = frame[TAIL_AT];  /* of the envelope: one-way or not */
    if (code == END_TRANSACTION && (flag == 0 || flag == ONEWAY_FLAG))
        done = take_native_end(run, native, &fields, &(End){.opaque = opaque, .is_oneway = flag == ONEWAY_FLAG});
    else if (flag != 0)
        done = 0;
    else if (code == SEND_MESSAGE || code == SEND_MESSAGE_V2)
        done = take_native_send(run, native, &fields, body, opaque);
    else if (code == SEND_MANY)
        done = take_many(run, native, &fields, body, opaque);
    if (done == 1)
        run->at += (Py_ssize_t)length + 4;
    return done;
}

PyObject *take_native_sends(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Run run = {.find = NULL};
    Native native;
    PyObject *halves;
    if (!PyArg_ParseTuple(arguments, "y*nn(y*y*y*y*)(LLL)nLy*y*OOOp:take_native_sends", &run.data, &run.at, &run.stop,
                          &native.tail, &native.sent, &native.many, &native.ended, &run.position, &run.room_end,
                          &run.record_bytes_max, &run.body_bytes_max, &run.stored_ms, &run.born_host, &run.added, &run.find,
                          &run.crc32, &halves, &run.has_slaves))
        return NULL;
    int is_usual = run.at >= 0 && run.stop <= run.data.len && is_host(&run.born_host) &&
                   native.tail.len == TAIL_BYTES && *(const uint8_t *)native.tail.buf == 0 && native.sent.len >= SENT_UNIQUE_ID_AT + UNIQUE_ID_BYTES &&
                   native.many.len > ENVELOPE_BYTES && native.ended.len >= ENVELOPE_BYTES && know_halves(&run, halves);
    begin(&run);
    while (run.log.bytes != NULL && is_usual && run.at < run.stop && take_native_frame(&run, &native) == 1)
        ;
    PyBuffer_Release(&native.tail);
    PyBuffer_Release(&native.sent);
    PyBuffer_Release(&native.many);
    PyBuffer_Release(&native.ended);
    return end(&run);
}

/* ---- sends of codec 0 ------------------------------------------------------------------------------------------------ */

enum { PARTS = 7, ENDED_PART = 6, NAMES = 14, DECIMAL_BYTES_MAX = 20 };

typedef struct {
    Py_buffer language;
    Span parts[PARTS];  /* of an answer, between what differs; the last is what begins one to the end of a transaction */
    int32_t version;
} Json;

/* What is left of a header. */
typedef struct {
    const uint8_t *at, *end;
} Text;

static int skip(Text *text, const char *wanted, size_t bytes) {
    if ((size_t)(text->end - text->at) < bytes || memcmp(text->at, wanted, bytes) != 0)
        return 0;
    text->at += bytes;
    return 1;
}

#define SKIP(text, wanted) skip(text, wanted, sizeof wanted - 1)

/* A string of ASCII without escapes. */
static int read_string(Text *text, Span *string) {
    if (!SKIP(text, "\""))
        return 0;
    const uint8_t *start = text->at;
    while (text->at < text->end && *text->at >= 0x20 && *text->at < 0x7F && *text->at != '"' && *text->at != '\\')
        text->at++;
    *string = (Span){start, (size_t)(text->at - start)};
    return SKIP(text, "\"");
}

static int hex_digit(uint8_t character) {
    if (character >= '0' && character <= '9')
        return character - '0';
    if ((character | 0x20) >= 'a' && (character | 0x20) <= 'f')
        return (character | 0x20) - 'a' + 10;
    return -1;
}

/* The character of an escape whose backslash was read; -1 if it isn't ASCII, or none. */
static int read_escape(Text *text) {
    if (text->at == text->end)
        return -1;
    uint8_t kind = *text->at++;
    if (kind != 'u')
        return kind == '"' || kind == '\\' || kind == '/' ? kind : -1;
    if (text->end - text->at < 4 || text->at[0] != '0' || text->at[1] != '0')
        return -1;
    int high = hex_digit(text->at[2]), low = hex_digit(text->at[3]);
    text->at += 4;
    return high < 0 || high > 7 || low < 0 ? -1 : high << 4 | low;
}

/* A string of ASCII with escapes, as properties are: 0x01 and 0x02 are between them. 1 read, 0 not plain, -1 an error. */
static int read_escaped(Run *run, Text *text, Span *string) {
    if (!SKIP(text, "\""))
        return 0;
    run->text.size = 0;
    uint8_t *start = grow(&run->text, (size_t)(text->end - text->at)), *to = start;
    if (start == NULL)
        return -1;
    while (text->at < text->end && *text->at != '"') {
        int character = *text->at++;
        if (character == '\\')
            character = read_escape(text);
        else if (character < 0x20 || character >= 0x7F)
            return 0;
        if (character < 0)
            return 0;
        *to++ = (uint8_t)character;
    }
    *string = (Span){start, (size_t)(to - start)};
    return SKIP(text, "\"");
}

static int number_in(Span digits, int64_t *number) {
    int is_negative = digits.bytes > 0 && digits.at[0] == '-';
    size_t at = (size_t)is_negative;
    if (digits.bytes == at || digits.bytes - at > 18 || (digits.at[at] == '0' && digits.bytes > 1))
        return 0;
    for (*number = 0; at < digits.bytes; at++) {
        if (digits.at[at] < '0' || digits.at[at] > '9')
            return 0;
        *number = 10 * *number + (digits.at[at] - '0');
    }
    if (is_negative)
        *number = -*number;
    return 1;
}

/* A string as above, or a number, true, false without quotes: `is_bare`. */
static int read_value(Text *text, Span *value, int *is_bare) {
    *is_bare = text->at < text->end && *text->at != '"';
    if (!*is_bare)
        return read_string(text, value);
    const uint8_t *start = text->at;
    while (text->at < text->end && *text->at != ',' && *text->at != '}')
        text->at++;
    *value = (Span){start, (size_t)(text->at - start)};
    int64_t number;
    return is(start, value->bytes, "true", 4) || is(start, value->bytes, "false", 5) || number_in(*value, &number);
}

static int read_number(Text *text, int64_t least, int64_t most, int64_t *number) {
    const uint8_t *start = text->at;
    while (text->at < text->end && (*text->at == '-' || (*text->at >= '0' && *text->at <= '9')))
        text->at++;
    return number_in((Span){start, (size_t)(text->at - start)}, number) && *number >= least && *number <= most;
}

static const char *const NAMES_V1[NAMES] = {
    "producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp", "flag",
    "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch", "bname",
};
enum {
    PRODUCER_GROUP, TOPIC, DEFAULT_TOPIC, DEFAULT_TOPIC_QUEUE_NUMS, QUEUE_ID, SYS_FLAG, BORN_TIMESTAMP, FLAG, PROPERTIES,
    RECONSUME_TIMES, UNIT_MODE, MAX_RECONSUME_TIMES, BATCH, BNAME,
    WANTED = 1 << TOPIC | 1 << QUEUE_ID | 1 << SYS_FLAG | 1 << BORN_TIMESTAMP | 1 << FLAG | 1 << PROPERTIES
};

/* Which field of a send a name means, in either spelling; -1 if none. */
static int field_of(Span name, int is_v2) {
    if (is_v2)
        return name.bytes == 1 && name.at[0] >= 'a' && name.at[0] < 'a' + NAMES ? name.at[0] - 'a' : -1;
    for (int field = 0; field < NAMES; field++)
        if (is(name.at, name.bytes, NAMES_V1[field], strlen(NAMES_V1[field])))
            return field;
    return -1;
}

/* A field of a send but its properties: 0 if it isn't plain. Without quotes, numbers are no truth and the other way round. */
static int take_field(Send *send, int field, Span value, int is_bare) {
    int is_false = is(value.at, value.bytes, "false", 5), is_true = is(value.at, value.bytes, "true", 4);
    int64_t number = 0;
    switch (field) {
    case PRODUCER_GROUP: case DEFAULT_TOPIC: case BNAME:
        return !is_bare;
    case TOPIC:
        send->topic = value;
        return !is_bare;
    case BATCH: case UNIT_MODE:
        is_false |= !is_bare && is(value.at, value.bytes, "0", 1);
        is_true |= !is_bare && is(value.at, value.bytes, "1", 1);
        return is_false || (is_true && field == UNIT_MODE);
    case BORN_TIMESTAMP:
        return number_in(value, &send->born_ms);
    }
    if (!number_in(value, &number) || number < INT32_MIN || number > INT32_MAX)
        return 0;
    if (field == QUEUE_ID)
        send->queue_id = (int32_t)number;
    else if (field == SYS_FLAG)
        send->sys_flag = (int32_t)number;
    else if (field == FLAG || field == RECONSUME_TIMES)
        return number == 0;
    return 1;
}

/* {"a":"group",...}: 1 read, 0 not plain, -1 an error is set. */
static int read_fields(Run *run, Text *text, int is_v2, Send *send) {
    unsigned seen = 0;
    if (!SKIP(text, "{"))
        return 0;
    do {
        Span name, value;
        if (!read_string(text, &name) || !SKIP(text, ":"))
            return 0;
        int field = field_of(name, is_v2), is_bare, done;
        if (field >= 0 && seen & 1u << field)
            return 0;
        seen |= field < 0 ? 0 : 1u << field;
        if (field == PROPERTIES) {
            if ((done = read_escaped(run, text, &send->properties)) != 1)
                return done;
        } else if (!read_value(text, &value, &is_bare) || (field >= 0 && !take_field(send, field, value, is_bare)))
            return 0;  /* A field of another name means nothing to a send, as long as it is one. */
    } while (SKIP(text, ","));
    return (seen & WANTED) == WANTED && SKIP(text, "}");
}

static int take_end_field(End *end, Span name, Span value, int is_bare, unsigned *seen) {
    enum { GROUP = 1, OFFSET = 2, POSITION = 4, KIND = 8, CHECK = 16 };
    unsigned now = 0;
    int is_right = 1;
    if (is(name.at, name.bytes, "producerGroup", 13)) {
        now = GROUP;
        end->group = value;
        is_right = !is_bare;
    } else if (is(name.at, name.bytes, "tranStateTableOffset", 20)) {
        now = OFFSET;
        is_right = number_in(value, &end->queue_offset);
    } else if (is(name.at, name.bytes, "commitLogOffset", 15)) {
        now = POSITION;
        is_right = number_in(value, &end->position);
    } else if (is(name.at, name.bytes, "commitOrRollback", 16)) {
        now = KIND;
        is_right = number_in(value, &end->kind);
    } else if (is(name.at, name.bytes, "fromTransactionCheck", 20)) {
        now = CHECK;
        is_right = is(value.at, value.bytes, "false", 5);
    } else if (is(name.at, name.bytes, "msgId", 5) || is(name.at, name.bytes, "transactionId", 13) ||
               is(name.at, name.bytes, "topic", 5))
        is_right = !is_bare;
    is_right &= !(*seen & now);
    *seen |= now;
    return is_right;
}

/* The fields of the end of a transaction: 1 read, 0 not plain. */
static int read_end_fields(Text *text, End *end) {
    enum { WANTED_OF_END = 15 };
    unsigned seen = 0;
    if (!SKIP(text, "{"))
        return 0;
    do {
        Span name, value;
        int is_bare;
        if (!read_string(text, &name) || !SKIP(text, ":") || !read_value(text, &value, &is_bare) ||
            !take_end_field(end, name, value, is_bare, &seen))
            return 0;
    } while (SKIP(text, ","));
    return (seen & WANTED_OF_END) == WANTED_OF_END && SKIP(text, "}");
}

/* The header of a send, whose keys stand in any order behind the code: 1 read, 0 not plain, -1 an error is set. With an
   `end` it is that of the end of a transaction. */
static int read_header(Run *run, const Json *json, Text *text, Send *send, End *end, int64_t *opaque) {
    enum { LANGUAGE = 1, VERSION = 2, FIELDS = 4, OPAQUE = 8, REST = 16, FLAG_SEEN = 32, REMARK = 64 };
    int64_t code, number;
    Span key, value;
    unsigned seen = 0, now;
    if (!SKIP(text, "{\"code\":") || !read_number(text, SEND_MESSAGE, SEND_MESSAGE_V2, &code) ||
        (end == NULL ? code != SEND_MESSAGE && code != SEND_MESSAGE_V2 : code != END_TRANSACTION))
        return 0;
    while (SKIP(text, ",")) {
        if (!read_string(text, &key) || !SKIP(text, ":"))
            return 0;
        if (is(key.at, key.bytes, "extFields", 9)) {
            int done = end == NULL ? read_fields(run, text, code == SEND_MESSAGE_V2, send) : read_end_fields(text, end);
            if (done != 1)
                return done;
            now = FIELDS;
        } else if (is(key.at, key.bytes, "language", 8)) {
            if (!read_string(text, &value) ||
                !is(value.at, value.bytes, json->language.buf, (size_t)json->language.len))
                return 0;
            now = LANGUAGE;
        } else if (is(key.at, key.bytes, "version", 7)) {
            if (!read_number(text, json->version, json->version, &number))
                return 0;
            now = VERSION;
        } else if (is(key.at, key.bytes, "opaque", 6)) {
            if (!read_number(text, INT32_MIN, INT32_MAX, opaque))
                return 0;
            now = OPAQUE;
        } else if (is(key.at, key.bytes, "flag", 4)) {
            if (!read_number(text, 0, end == NULL ? 0 : ONEWAY_FLAG, &number) || number == 1)
                return 0;
            if (end != NULL)
                end->is_oneway = number == ONEWAY_FLAG;
            now = FLAG_SEEN;
        } else if (is(key.at, key.bytes, "remark", 6)) {
            if (!SKIP(text, "\"\"") && !SKIP(text, "null"))
                return 0;
            now = REMARK;
        } else if (is(key.at, key.bytes, "serializeTypeCurrentRPC", 23)) {
            if (!read_string(text, &value))
                return 0;
            now = REST;
        } else
            return 0;
        if (seen & now)
            return 0;
        seen |= now;
    }
    unsigned wanted = LANGUAGE | VERSION | FIELDS | OPAQUE;
    return (seen & wanted) == wanted && SKIP(text, "}") && text->at == text->end;
}

static uint8_t *put_decimal(uint8_t *at, int64_t number) {
    uint8_t digits[DECIMAL_BYTES_MAX], *digit = digits + sizeof digits;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        *--digit = (uint8_t)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0)
        *at++ = '-';
    return put(at, digit, (size_t)(digits + sizeof digits - digit));
}

static int answer_json(Run *run, const Json *json, const Send *send, int64_t opaque) {
    size_t most = 8 + 16 + 3 * (DECIMAL_BYTES_MAX + 1) + send->unique_id.bytes;
    for (int part = 0; part < PARTS; part++)
        most += json->parts[part].bytes;
    uint8_t *start = grow(&run->answers, most), *at = start;
    if (start == NULL)
        return -1;
    at = put(at + 8, json->parts[0].at, json->parts[0].bytes);
    at = put_hex(at, (uint64_t)send->position);
    at = put(at, json->parts[1].at, json->parts[1].bytes);
    at = put_decimal(at, send->queue_id);
    at = put(at, json->parts[2].at, json->parts[2].bytes);
    at = put_decimal(at, send->queue_offset);
    at = put(at, json->parts[3].at, json->parts[3].bytes);
    at = put(at, send->unique_id.at, send->unique_id.bytes);
    at = put(at, json->parts[4].at, json->parts[4].bytes);
    at = put_decimal(at, opaque);
    at = put(at, json->parts[5].at, json->parts[5].bytes);
    size_t bytes = (size_t)(at - start);
    put32(put32(start, (uint32_t)(bytes - 4)), (uint32_t)(bytes - 8));
    run->answers.size -= most - bytes;
    return 1;
}

/* Whether a text stands in JSON as it is. */
static int is_simple(Span text) {
    for (size_t at = 0; at < text.bytes; at++)
        if (text.at[at] < 0x20 || text.at[at] >= 0x7F || text.at[at] == '"' || text.at[at] == '\\')
            return 0;
    return 1;
}

static const char END_BEGINS[] = "{\"code\":37,";

static int take_json_end(Run *run, const Json *json, Text *header, Send *send, size_t frame_bytes) {
    End end = {.opaque = 0};
    int done = read_header(run, json, header, send, &end, &end.opaque);
    if (done == 1)
        done = end_half(run, &end);
    if (done != 1)
        return done;
    run->at += (Py_ssize_t)frame_bytes;
    if (end.is_oneway)
        return 1;
    size_t most = 8 + DECIMAL_BYTES_MAX + json->parts[ENDED_PART].bytes + json->parts[ENDED_PART - 1].bytes;
    uint8_t *start = grow(&run->answers, most), *at = start;
    if (start == NULL)
        return -1;
    at = put(at + 8, json->parts[ENDED_PART].at, json->parts[ENDED_PART].bytes);
    at = put_decimal(at, end.opaque);
    at = put(at, json->parts[ENDED_PART - 1].at, json->parts[ENDED_PART - 1].bytes);
    size_t bytes = (size_t)(at - start);
    put32(put32(start, (uint32_t)(bytes - 4)), (uint32_t)(bytes - 8));
    run->answers.size -= most - bytes;
    return 1;
}

/* The next frame: 1 taken, 0 it isn't plain, -1 an error is set. */
static int take_json_frame(Run *run, const Json *json) {
    const uint8_t *frame = (const uint8_t *)run->data.buf + run->at;
    size_t left = (size_t)(run->data.len - run->at);
    if (left < 8)
        return 0;
    size_t length = get32(frame), header_bytes = get32(frame + 4);  /* with the codec, which is 0 */
    if (header_bytes > HEADER_BYTES_MAX || length < 4 + header_bytes || length + 4 > left)
        return 0;
    const uint8_t *body_at = frame + 8 + header_bytes;
    Text header = {frame + 8, body_at};
    Send send = {.body = {body_at, length - 4 - header_bytes}};
    if (header_bytes > sizeof END_BEGINS && memcmp(frame + 8, END_BEGINS, sizeof END_BEGINS - 1) == 0)
        return take_json_end(run, json, &header, &send, length + 4);
    int64_t opaque = 0;
    int done = read_header(run, json, &header, &send, NULL, &opaque);
    if (done == 1 && (!look_at_properties(run, &send) || !is_simple(send.unique_id)))
        done = 0;
    if (done == 1)
        done = put_send(run, &send);
    if (done == 1)
        done = answer_json(run, json, &send, opaque);
    if (done == 1)
        run->at += (Py_ssize_t)length + 4;
    return done;
}

PyObject *take_json_sends(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Run run = {.find = NULL};
    Json json;
    PyObject *parts, *halves;
    if (!PyArg_ParseTuple(arguments, "y*nn(y*iO!)(LLL)nLy*y*OOOp:take_json_sends", &run.data, &run.at, &run.stop,
                          &json.language, &json.version, &PyTuple_Type, &parts, &run.position, &run.room_end,
                          &run.record_bytes_max, &run.body_bytes_max, &run.stored_ms, &run.born_host, &run.added,
                          &run.find, &run.crc32, &halves, &run.has_slaves))
        return NULL;
    int is_usual = run.at >= 0 && run.stop <= run.data.len && is_host(&run.born_host) &&
                   PyTuple_GET_SIZE(parts) == PARTS && know_halves(&run, halves);
    for (Py_ssize_t part = 0; is_usual && part < PARTS; part++) {
        PyObject *bytes = PyTuple_GET_ITEM(parts, part);
        is_usual = PyBytes_Check(bytes);
        if (is_usual)
            json.parts[part] = (Span){(const uint8_t *)PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)};
    }
    begin(&run);
    while (run.log.bytes != NULL && is_usual && run.at < run.stop && take_json_frame(&run, &json) == 1)
        ;
    PyBuffer_Release(&json.language);
    return end(&run);
}
