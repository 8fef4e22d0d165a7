/* The halves of transactions in a run: what broker/transactions/forms.py makes of them, to the byte.

   A half message goes to the queue of half messages, with where it belongs among its properties. Its end takes it from
   the halves that Python has kept as they lie in the log (`recent`: each of them is open), and writes it where it
   belongs. The record that it has ended is Python's, one for all that a burst has ended. What isn't kept, asks for more
   time, was asked about, or is of another group is left to Python, too. */

#include "_compiled_runs.h"

enum { KIND_COMMIT = 8, KIND_ROLLBACK = 12, DIGITS_MAX = 20, RECENT_BODY_BYTES_MAX = 8192 };
enum { END_FRAME_BYTES_MIN = 40, RESERVED_MAX = 1 << 18 };

static const char TRANSACTION_ID[] = "__transactionId__\x01", REAL_TOPIC[] = "\x02REAL_TOPIC\x01", REAL_QID[] = "\x02REAL_QID\x01";

/* The place of the queue of half messages; -1 if there is none, or with an error set. */
static int halves_place(Run *run) {
    if (run->halves_place >= 0)
        return run->halves_place;
    PyObject *found = PyObject_CallNoArgs(run->find_halves);
    if (found == NULL || found == Py_None) {
        Py_XDECREF(found);
        return -1;
    }
    return run->halves_place = add_place(run, found, 0, -1);
}

static int none_or_error(void) { return PyErr_Occurred() ? -1 : 0; }

static uint8_t *put_digits(uint8_t *at, uint64_t number) {
    uint8_t digits[DIGITS_MAX], *digit = digits + sizeof digits;
    do {
        *--digit = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return put(at, digit, (size_t)(digits + sizeof digits - digit));
}

#define PUT_TEXT(at, text) put(at, text, sizeof text - 1)
#define HAS(span, text) (find((span).at, (span).bytes, text, sizeof text - 1) != NULL)

/* Where a half message goes instead, and what is put behind its properties. */
int make_half(Run *run, Send *send, int *index, Span *added) {
    if (run->recent == NULL || HAS(send->properties, "REAL_") || HAS(send->properties, "__transactionId__") ||
        HAS(send->properties, "CHECK_IMMUNITY") || send->queue_id < 0 || send->group.bytes == 0)
        return 0;
    Span topic = send->topic;
    size_t most = added->bytes + sizeof TRANSACTION_ID + send->unique_id.bytes + sizeof REAL_TOPIC + topic.bytes +
                  sizeof REAL_QID + DIGITS_MAX;
    run->more.size = 0;
    uint8_t *start = grow(&run->more, most), *at = start;
    if (start == NULL)
        return -1;
    at = put(at, added->at, added->bytes);
    at = PUT_TEXT(at, TRANSACTION_ID);
    at = put(at, send->unique_id.at, send->unique_id.bytes);
    at = PUT_TEXT(at, REAL_TOPIC);
    at = put(at, topic.at, topic.bytes);
    at = PUT_TEXT(at, REAL_QID);
    at = put_digits(at, (uint64_t)send->queue_id);
    *at++ = 0x02;
    *added = (Span){start, (size_t)(at - start)};
    if (send->properties.bytes + added->bytes > PROPERTIES_BYTES_MAX)
        return 0;
    *index = halves_place(run);
    return *index < 0 ? none_or_error() : 1;
}

/* The producer group of a half message, which often is that of the last one. */
static PyObject *group_of(Run *run, Span group) {
    Py_ssize_t bytes = 0;
    const char *last = run->group == NULL ? NULL : PyUnicode_AsUTF8AndSize(run->group, &bytes);
    if (last == NULL || !is(group.at, group.bytes, last, (size_t)bytes)) {
        Py_XDECREF(run->group);
        run->group = PyUnicode_FromStringAndSize((const char *)group.at, (Py_ssize_t)group.bytes);
    }
    return run->group;
}

static int file_under(PyObject **table, PyObject *key, PyObject *value) {
    if (*table == NULL)
        *table = PyDict_New();
    int done = *table == NULL || value == NULL || PyDict_SetItem(*table, key, value) < 0 ? -1 : 1;
    Py_XDECREF(value);
    return done;
}

/* Notes for Python a half message whose record is the last of the log. */
int note_half(Run *run, const Send *send, size_t record_bytes) {
    const char *record = PyBytes_AS_STRING(run->log.bytes) + run->log.size - record_bytes;
    PyObject *group = group_of(run, send->group);
    PyObject *offset = PyLong_FromLongLong(send->queue_offset), *position = PyLong_FromLongLong(send->position);
    int done = -1;
    if (group != NULL && offset != NULL && position != NULL)
        done = file_under(&run->begun, offset, Py_BuildValue("OOLi", position, group, run->stored_ms + run->timeout_ms, 0));
    if (done == 1 && send->body.bytes <= RECENT_BODY_BYTES_MAX)
        done = file_under(&run->kept, position, PyBytes_FromStringAndSize(record, (Py_ssize_t)record_bytes));
    Py_XDECREF(offset);
    Py_XDECREF(position);
    return done;
}

/* A kept half message, and what its end needs of it. */
typedef struct {
    Span properties, body, group, real_topic, real_queue;
    int64_t queue_offset, born_ms, tags_code;
    const uint8_t *record;
} Half;

static void look_at(Half *half, const uint8_t *name, const uint8_t *name_end, const uint8_t *value_end) {
    size_t name_bytes = (size_t)(name_end - name);
    Span value = {name_end + 1, (size_t)(value_end - name_end) - 1};
    if (is(name, name_bytes, "PGROUP", 6))
        half->group = value;
    else if (is(name, name_bytes, "REAL_TOPIC", 10))
        half->real_topic = value;
    else if (is(name, name_bytes, "REAL_QID", 8))
        half->real_queue = value;
    else if (is(name, name_bytes, "TAGS", 4))
        half->tags_code = hash_of(value.at, value.bytes);
}

/* Reads a record that `note_half` gave to Python: 0 if it isn't one. */
static int read_half(const uint8_t *record, size_t size, Half *half) {
    if (size < RECORD_BYTES_MIN || record[BORN_HOST_HEAD_AT] != 0xC4 || record[BORN_HOST_HEAD_AT + 1] != HOST_V4_BYTES)
        return 0;
    size_t properties_at = TOPIC_AT + 3 + get16(record + TOPIC_AT + 1) + 1 + 2;
    if (properties_at > size)
        return 0;
    size_t properties_bytes = get16(record + properties_at - 2), body_at = properties_at + properties_bytes + 5;
    if (body_at > size)
        return 0;
    *half = (Half){
        .properties = {record + properties_at, properties_bytes}, .body = {record + body_at, size - body_at},
        .group = {record, 0},  /* none; memcmp may not have NULL even for no bytes */
        .queue_offset = (int64_t)get64(record + QUEUE_OFFSET_AT), .born_ms = (int64_t)get64(record + BORN_MS_AT), .record = record,
    };
    const uint8_t *at = half->properties.at, *end = at + properties_bytes;
    while (at < end) {
        const uint8_t *value_end = memchr(at, 0x02, (size_t)(end - at));
        const uint8_t *name_end = value_end == NULL ? NULL : memchr(at, 0x01, (size_t)(value_end - at));
        if (value_end == NULL)
            return 0;
        if (name_end != NULL)
            look_at(half, at, name_end, value_end);
        at = value_end + 1;
    }
    return half->real_topic.bytes > 0 && half->real_queue.bytes > 0 && half->real_queue.bytes < 10;
}

/* The place of a committed message; -1 if there is none, or with an error set. `read_half` has checked that the queue has
   at most 9 digits, so that its number fits. */
static int final_place(Run *run, const Half *half) {
    Send final = {.topic = half->real_topic};
    for (size_t at = 0; at < half->real_queue.bytes; at++) {
        uint8_t digit = half->real_queue.at[at];
        if (digit < '0' || digit > '9')
            return -1;
        final.queue_id = 10 * final.queue_id + (digit - '0');
    }
    return place_of(run, &final);
}

/* Room for what the frames that are left may make if they all are such commits: a growing log is copied. */
static int reserve(Run *run, size_t record_bytes) {
    size_t frames = (size_t)(run->stop - run->at) / END_FRAME_BYTES_MIN + 1;
    size_t wanted = frames > RESERVED_MAX / record_bytes ? RESERVED_MAX : frames * record_bytes;
    if (run->log.size + record_bytes <= run->log.room || wanted < record_bytes)
        return 1;
    if (grow(&run->log, wanted) == NULL)
        return -1;
    run->log.size -= wanted;
    return 1;
}

static int commit_kept(Run *run, const End *end, const Half *half) {
    int to = final_place(run, half);
    if (to < 0)
        return none_or_error();
    Record final = {
        .stored_ms = run->stored_ms, .born_ms = half->born_ms, .born_host = {half->record + BORN_HOST_AT, HOST_V4_BYTES},
        .packed_topic = run->places[to].packed_topic, .properties = half->properties, .body = half->body,
        .sys_flag = KIND_COMMIT, .prepared_position = end->position, .body_crc = half->record + BODY_CRC_AT,
    };
    size_t bytes = size_of_record(&final);
    if ((long long)bytes > run->record_bytes_max || run->position + (long long)bytes > run->room_end)
        return 0;
    return reserve(run, bytes) < 0 ? -1 : add_record(run, to, &final, half->tags_code);
}

/* Notes for Python that a half message has ended. */
static int note_end(Run *run, const Half *half) {
    if (run->ends == NULL)
        run->ends = PyList_New(0);
    PyObject *offset = run->ends == NULL ? NULL : PyLong_FromLongLong(half->queue_offset);
    int done = offset == NULL || PyList_Append(run->ends, offset) < 0 ? -1 : 1;
    Py_XDECREF(offset);
    return done;
}

int end_half(Run *run, const End *end) {
    if (run->recent == NULL || (end->kind != KIND_COMMIT && end->kind != KIND_ROLLBACK))
        return 0;
    PyObject *position = PyLong_FromLongLong(end->position);
    PyObject *record = position == NULL ? NULL : PyDict_GetItemWithError(run->recent, position);
    int done = none_or_error();
    if (record != NULL && PyBytes_Check(record)) {
        Half half;
        Py_INCREF(record);
        if (read_half((const uint8_t *)PyBytes_AS_STRING(record), (size_t)PyBytes_GET_SIZE(record), &half) &&
            half.queue_offset == end->queue_offset && half.group.bytes == end->group.bytes &&
            memcmp(half.group.at, end->group.at, end->group.bytes) == 0)
            done = end->kind == KIND_ROLLBACK || (done = commit_kept(run, end, &half)) == 1 ? note_end(run, &half) : done;
        if (done == 1 && PyDict_DelItem(run->recent, position) < 0)
            done = -1;  /* Nobody ends it a second time. */
        Py_DECREF(record);
    }
    Py_XDECREF(position);
    return done;
}
