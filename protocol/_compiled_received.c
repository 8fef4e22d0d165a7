/* What clients of the gRPC endpoint get of a stored message, up to its body: proxy/services/received_messages.py, whose
   bytes these are. The names of properties and what they mean come from there; here is what is done for each of them.

   An answer on its way: 00, its length (32) | 0x12, length: ReceiveMessageResponse.message |
   0x0a topic | 0x12 user property, each | 0x1a, length: SystemProperties | 0x22, length: body

   Properties come from other programs: what isn't ASCII, a user's name that stands there twice, or many of them are left
   to Python by None, as whatever is rare. */

#include "_compiled.h"

enum { SKIPPED, TAG, KEYS, MESSAGE_ID, BORN_HOST, RARE, KINDS };  /* received_messages.py: _KINDS; RARE is left to Python */
enum { USERS_MAX = 32, DIGEST_BYTES = 16, VARINT_BYTES_MAX = 10, ANSWER_HEAD_BYTES = 5 };
/* All of SystemProperties that has a fixed size, with room to spare. */
enum { SYSTEM_BYTES_MAX = 256 };
#define MOMENT_MS_MAX 253402300799000LL

typedef struct {
    Span names[USERS_MAX], values[USERS_MAX];
    size_t count;
} Users;

typedef struct {
    PyObject *properties, *body, *born_host;
    long long sys_flag, born_ms, stored_ms, queue_id, queue_offset;
} Stored;

static uint8_t *put_varint(uint8_t *at, uint64_t number) {
    for (; number >= 0x80; number >>= 7)
        *at++ = (uint8_t)(number | 0x80);
    *at++ = (uint8_t)number;
    return at;
}

static size_t varint_bytes(uint64_t number) {
    size_t bytes = 1;
    while (number >>= 7)
        bytes++;
    return bytes;
}

static uint8_t *put_lengthy(uint8_t *at, uint8_t tag, const void *from, size_t bytes) {
    *at++ = tag;
    return put(put_varint(at, bytes), from, bytes);
}

static uint8_t *put_moment(uint8_t *at, uint8_t tag, int64_t moment_ms) {
    uint8_t moment[2 + 2 * VARINT_BYTES_MAX], *end = moment;
    if (moment_ms / 1000) {
        *end++ = 0x08;
        end = put_varint(end, (uint64_t)(moment_ms / 1000));
    }
    if (moment_ms % 1000) {
        *end++ = 0x10;
        end = put_varint(end, (uint64_t)(moment_ms % 1000) * 1000000);
    }
    return put_lengthy(at, tag, moment, (size_t)(end - moment));
}

/* Python's str.split, of ASCII. */
static int is_space(uint8_t byte) { return byte == ' ' || (byte >= 0x09 && byte <= 0x0D) || (byte >= 0x1C && byte <= 0x1F); }

static uint8_t *put_keys(uint8_t *at, Span keys) {
    const uint8_t *from = keys.at, *end = keys.at + keys.bytes;
    while (from < end) {
        const uint8_t *start = from;
        while (from < end && !is_space(*from))
            from++;
        if (from > start)
            at = put_lengthy(at, 0x12, start, (size_t)(from - start));
        else
            from++;
    }
    return at;
}

static int is_new(const Users *users, Span name) {
    for (size_t index = 0; index < users->count; index++)
        if (users->names[index].bytes == name.bytes && memcmp(users->names[index].at, name.at, name.bytes) == 0)
            return 0;
    return users->count < USERS_MAX;
}

/* Sorts the properties; 1 done, 0 Python has to look at them, -1 an error is set. */
static int sort_properties(const uint8_t *at, size_t bytes, PyObject *kinds, Span *known, Users *users) {
    const uint8_t *end = at + bytes;
    for (size_t index = 0; index < bytes; index++)
        if (at[index] & 0x80)
            return 0;
    for (const uint8_t *next; at < end; at = next) {
        const uint8_t *entry_end = memchr(at, 0x02, (size_t)(end - at));
        if (entry_end == NULL)
            entry_end = end;
        next = entry_end + 1;
        const uint8_t *name_end = memchr(at, 0x01, (size_t)(entry_end - at));
        if (name_end == NULL || name_end == at || name_end + 1 == entry_end)
            continue;
        Span name = {at, (size_t)(name_end - at)}, value = {name_end + 1, (size_t)(entry_end - name_end) - 1};
        PyObject *key = PyBytes_FromStringAndSize((const char *)name.at, (Py_ssize_t)name.bytes);
        if (key == NULL)
            return -1;
        PyObject *found = PyDict_GetItemWithError(kinds, key);
        Py_DECREF(key);
        if (found == NULL) {
            if (PyErr_Occurred())
                return -1;
            if (!is_new(users, name))
                return 0;
            users->names[users->count] = name;
            users->values[users->count++] = value;
            continue;
        }
        long kind = PyLong_AsLong(found);
        if (kind == SKIPPED)
            continue;
        if (kind < SKIPPED || kind >= RARE)
            return PyErr_Occurred() ? -1 : 0;
        known[kind] = value;  /* of a name that stands there twice, the last value */
    }
    return 1;
}

static uint8_t *put_users(uint8_t *at, const Users *users) {
    for (size_t index = 0; index < users->count; index++) {
        Span name = users->names[index], value = users->values[index];
        *at++ = 0x12;
        at = put_varint(at, 2 + varint_bytes(name.bytes) + name.bytes + varint_bytes(value.bytes) + value.bytes);
        at = put_lengthy(put_lengthy(at, 0x0A, name.at, name.bytes), 0x12, value.at, value.bytes);
    }
    return at;
}

static Span span_of(PyObject *bytes) {
    return (Span){(const uint8_t *)PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)};
}

/* What all messages of a topic have: its field, the heads of the digest, the field of the store host. */
typedef struct {
    Span topic, digest_head, store_host;
} Shared;

static uint8_t *put_system(uint8_t *at, const Stored *stored, const Shared *shared, const Span *known, Span digest,
                           Span receipt, long long attempt) {
    if (known[TAG].at != NULL)
        at = put_lengthy(at, 0x0A, known[TAG].at, known[TAG].bytes);
    if (known[KEYS].at != NULL)
        at = put_keys(at, known[KEYS]);
    at = put_lengthy(at, 0x1A, known[MESSAGE_ID].at, known[MESSAGE_ID].bytes);
    at = put(at, shared->digest_head.at, shared->digest_head.bytes);
    for (size_t index = 0; index < digest.bytes; index++) {
        *at++ = (uint8_t)"0123456789ABCDEF"[digest.at[index] >> 4];
        *at++ = (uint8_t)"0123456789ABCDEF"[digest.at[index] & 15];
    }
    *at++ = 0x28;
    *at++ = stored->sys_flag & 1 ? 2 : 1;  /* GZIP, IDENTITY */
    at = put(at, "\x30\x01", 2);           /* NORMAL: other types have properties that are left to Python */
    at = put_moment(at, 0x3A, stored->born_ms);
    Span born_host = span_of(stored->born_host);
    at = known[BORN_HOST].at == NULL ? put(at, born_host.at, born_host.bytes)
                                     : put_lengthy(at, 0x42, known[BORN_HOST].at, known[BORN_HOST].bytes);
    at = put_moment(at, 0x4A, stored->stored_ms);
    at = put(at, shared->store_host.at, shared->store_host.bytes);
    if (receipt.bytes)
        at = put_lengthy(at, 0x62, receipt.at, receipt.bytes);
    if (stored->queue_id) {
        *at++ = 0x68;
        at = put_varint(at, (uint64_t)stored->queue_id);
    }
    *at++ = 0x70;
    at = put_varint(at, (uint64_t)stored->queue_offset);
    at = put(at, "\x80\x01", 2);
    return put_varint(at, (uint64_t)attempt);
}

/* The head, of parts that were measured; NULL with an error set. */
static PyObject *join(Span topic, Span users, Span system, size_t body_bytes) {
    size_t rest = topic.bytes + users.bytes + 1 + varint_bytes(system.bytes) + system.bytes;
    if (body_bytes)
        rest += 1 + varint_bytes(body_bytes);
    size_t message_bytes = rest + body_bytes, answer_bytes = 1 + varint_bytes(message_bytes) + message_bytes;
    if (answer_bytes > UINT32_MAX)
        Py_RETURN_NONE;
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(ANSWER_HEAD_BYTES + answer_bytes - body_bytes));
    if (made == NULL)
        return NULL;
    uint8_t *at = (uint8_t *)PyBytes_AS_STRING(made);
    *at++ = 0;
    at = put32(at, (uint32_t)answer_bytes);
    *at++ = 0x12;
    at = put_varint(at, message_bytes);
    at = put(put(at, topic.at, topic.bytes), users.at, users.bytes);
    *at++ = 0x1A;
    at = put(put_varint(at, system.bytes), system.at, system.bytes);
    if (body_bytes) {
        *at++ = 0x22;
        put_varint(at, body_bytes);
    }
    return made;
}

static PyObject *pack(const Stored *stored, const Shared *shared, PyObject *kinds, Span digest, Span receipt,
                      long long attempt) {
    Span known[KINDS] = {{NULL, 0}}, properties = span_of(stored->properties);
    Users users = {.count = 0};
    int sorted = sort_properties(properties.at, properties.bytes, kinds, known, &users);
    if (sorted < 0)
        return NULL;
    if (!sorted || known[MESSAGE_ID].at == NULL)
        Py_RETURN_NONE;
    /* A key of one byte and the space behind it become three bytes; a user's name and value of one byte each, which take
       four with what stands between, become eight. Lengths of more than a byte belong to longer texts. */
    size_t room = 3 * properties.bytes + shared->digest_head.bytes + shared->store_host.bytes + receipt.bytes +
                  (size_t)PyBytes_GET_SIZE(stored->born_host) + SYSTEM_BYTES_MAX;
    uint8_t *scratch = PyMem_Malloc(room);
    if (scratch == NULL)
        return PyErr_NoMemory();
    uint8_t *system = put_users(scratch, &users);
    uint8_t *end = put_system(system, stored, shared, known, digest, receipt, attempt);
    PyObject *made = join(shared->topic, (Span){scratch, (size_t)(system - scratch)},
                          (Span){system, (size_t)(end - system)}, (size_t)PyBytes_GET_SIZE(stored->body));
    PyMem_Free(scratch);
    return made;
}

static int are_bytes(PyObject *const *objects, size_t count) {
    for (size_t index = 0; index < count; index++)
        if (!PyBytes_Check(objects[index])) {
            PyErr_SetString(PyExc_TypeError, "received_head: bytes");
            return 0;
        }
    return 1;
}

PyObject *received_head(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Stored stored;
    PyObject *parts[3], *kinds, *digest, *receipt;
    long long attempt;
    if (!PyArg_ParseTuple(arguments, "(OOOLLLLL)(OOOO!)OUL:received_head", &stored.properties, &stored.body,
                          &stored.born_host, &stored.sys_flag, &stored.born_ms, &stored.stored_ms, &stored.queue_id,
                          &stored.queue_offset, &parts[0], &parts[1], &parts[2], &PyDict_Type, &kinds, &digest, &receipt,
                          &attempt)) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return NULL;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    PyObject *const bytes[] = {stored.properties, stored.body, stored.born_host, parts[0], parts[1], parts[2], digest};
    if (!are_bytes(bytes, sizeof bytes / sizeof *bytes))
        return NULL;
    if (PyBytes_GET_SIZE(digest) != DIGEST_BYTES || stored.stored_ms < 0 || !PyUnicode_IS_ASCII(receipt))
        Py_RETURN_NONE;
    stored.born_ms = stored.born_ms < 0 ? 0 : stored.born_ms > MOMENT_MS_MAX ? MOMENT_MS_MAX : stored.born_ms;
    Shared shared = {span_of(parts[0]), span_of(parts[1]), span_of(parts[2])};
    Span handle = {PyUnicode_DATA(receipt), (size_t)PyUnicode_GET_LENGTH(receipt)};
    return pack(&stored, &shared, kinds, span_of(digest), handle, attempt);
}
