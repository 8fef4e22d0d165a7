/* The compiled twin of a copied log: records of a piece, as another broker stored them, to the entries of their queues.
   broker/store/copied.py does the same, record by record, for those that aren't plain.

   A record counts only if it is as `check_record` (protocol/record.py) wants it: every length is measured against what is
   left before it is used, and both CRCs must fit. It isn't plain, and Python looks at it, if no queue gets it (a half
   message, say), if its queue has another end, or if it is damaged: so every complaint is worded once. */

#include "_compiled_runs.h"

enum { TOPIC_HEAD_BYTES = 3, PROPERTIES_HEAD_BYTES = 3, BODY_HEAD_BYTES = 5 };

/* A record whose lengths add up. */
typedef struct {
    size_t size, body_at;
    Span topic, properties;
} Copied;

/* 1 if there is the head of a record, and its parts fill all of it; 0 if Python has to look. */
static int measure_record(const uint8_t *from, size_t left, int64_t position, Copied *copied) {
    if (left < RECORD_BYTES_MIN || memcmp(from, "\xdc\x00\x11\xce", 4) != 0 || from[8] != 0xCE ||
        get32(from + 14) != RECORD_MAGIC || (int64_t)get64(from + LOG_POSITION_AT) != position)
        return 0;
    size_t size = get32(from + RECORD_BYTES_AT), host_bytes = from[BORN_HOST_HEAD_AT + 1];
    if (size < RECORD_BYTES_MIN || size > left || from[BORN_HOST_HEAD_AT] != 0xC4 ||
        (host_bytes != HOST_V4_BYTES && host_bytes != HOST_V6_BYTES))
        return 0;
    size_t at = BORN_HOST_AT + host_bytes;
    if (at + TOPIC_HEAD_BYTES + PROPERTIES_HEAD_BYTES + BODY_HEAD_BYTES > size || from[at] != 0xDA)
        return 0;
    copied->topic = (Span){from + at + TOPIC_HEAD_BYTES, get16(from + at + 1)};
    at += TOPIC_HEAD_BYTES + copied->topic.bytes;
    if (at + PROPERTIES_HEAD_BYTES + BODY_HEAD_BYTES > size || from[at] != 0xC5)
        return 0;
    copied->properties = (Span){from + at + PROPERTIES_HEAD_BYTES, get16(from + at + 1)};
    at += PROPERTIES_HEAD_BYTES + copied->properties.bytes;
    if (at + BODY_HEAD_BYTES > size || from[at] != 0xC6 || get32(from + at + 1) != size - at - BODY_HEAD_BYTES)
        return 0;
    copied->size = size;
    copied->body_at = at + BODY_HEAD_BYTES;
    return 1;
}

/* 1 if both CRCs fit, 0 if not, -1 with an error set. */
static int is_intact(const uint8_t *from, const Copied *copied, PyObject *crc32) {
    uint32_t crc;
    if (crc_of(crc32, from + COVERED_AT, copied->body_at - COVERED_AT, &crc) < 0)
        return -1;
    if (crc != get32(from + 9))
        return 0;
    if (crc_of(crc32, from + copied->body_at, copied->size - copied->body_at, &crc) < 0)
        return -1;
    return (crc & 0x7FFFFFFFu) == get32(from + BODY_CRC_AT);
}

/* Takes the record that begins at `from`: 1 done, 0 it isn't plain, -1 an error is set. */
static int take_record(Run *run, const uint8_t *from, size_t left, Copied *copied) {
    int64_t tags_code;
    if (!measure_record(from, left, run->position, copied) || get32(from + SYS_FLAG_AT) & SYS_FLAG_PREPARED ||
        !code_of_tag(copied->properties.at, copied->properties.bytes, &tags_code))
        return 0;
    int done = is_intact(from, copied, run->crc32);
    if (done != 1)
        return done;
    Send send = {.topic = copied->topic, .queue_id = (int32_t)get32(from + QUEUE_ID_AT)};
    int index = place_of(run, &send);
    if (index < 0)
        return PyErr_Occurred() ? -1 : 0;
    Place *place = &run->places[index];
    if ((int64_t)get64(from + QUEUE_OFFSET_AT) != place->next_offset)
        return 0;
    uint8_t *entry = grow(&place->entries, ENTRY_BYTES);
    if (entry == NULL)
        return -1;
    put64(put32(put64(entry, (uint64_t)run->position), (uint32_t)copied->size), (uint64_t)tags_code);
    place->next_offset++;
    place->record_bytes += (long long)copied->size;
    int64_t stored_ms = (int64_t)get64(from + STORED_MS_AT);
    if (stored_ms > run->stored_ms)
        run->stored_ms = stored_ms;
    run->last_position = run->position;
    return 1;
}

PyObject *take_copied(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Run run = {.last_position = -1};
    if (!PyArg_ParseTuple(arguments, "y*nLOO:take_copied", &run.data, &run.at, &run.position, &run.find, &run.crc32))
        return NULL;
    memset(run.heads, -1, sizeof run.heads);
    const uint8_t *data = run.data.buf;
    Py_ssize_t began = run.at;
    Copied copied;
    int done = run.at >= 0;
    while (done == 1 && run.at < run.data.len &&
           (done = take_record(&run, data + run.at, (size_t)(run.data.len - run.at), &copied)) == 1) {
        run.at += (Py_ssize_t)copied.size;
        run.position += (long long)copied.size;
    }
    PyObject *taken = NULL;
    if (done >= 0 && run.at == began)
        taken = Py_NewRef(Py_None);
    else if (done >= 0) {
        PyObject *rows = rows_of(&run);
        if (rows != NULL)
            taken = Py_BuildValue("nLLN", run.at, run.last_position, run.stored_ms, rows);
    }
    free_places(&run);
    PyBuffer_Release(&run.data);
    return taken;
}
