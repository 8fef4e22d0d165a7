/* What the parts of the compiled twin share: numbers in bytes, and a record as it is written into the log. */

#ifndef STATICFIRE_COMPILED_H
#define STATICFIRE_COMPILED_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define HOST_V4_BYTES 8
#define HOST_V6_BYTES 20
#define TOPIC_BYTES_MAX_V1 127
#define PROPERTIES_BYTES_MAX 32767
#define ROCKETMQ_MAGIC_V1 0xDAA320A7u
#define SYS_FLAG_PREPARED 4
#define RECORD_MAGIC 0x53460001u

/* Where the fields of a stored record lie (protocol/record.py draws them), with an IPv4 born host. */
enum {
    RECORD_BYTES_AT = 4, LOG_POSITION_AT = 19, QUEUE_ID_AT = 28, QUEUE_OFFSET_AT = 33, STORED_MS_AT = 42, BORN_MS_AT = 51,
    SYS_FLAG_AT = 60, FLAG_AT = 65, RECONSUME_TIMES_AT = 70, PREPARED_POSITION_AT = 75, BODY_CRC_AT = 84,
    BORN_HOST_HEAD_AT = 88, BORN_HOST_AT = 90, TOPIC_AT = 98, COVERED_AT = 13,
    RECORD_BYTES_MIN = 109, RECORD_FIXED_BYTES = 98, ENTRY_BYTES = 20
};

static inline uint16_t get16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }

static inline uint32_t get32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline uint64_t get64(const uint8_t *at) { return (uint64_t)get32(at) << 32 | get32(at + 4); }

static inline uint8_t *put16(uint8_t *at, uint16_t value) {
    at[0] = (uint8_t)(value >> 8); at[1] = (uint8_t)value;
    return at + 2;
}

static inline uint8_t *put32(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 24); at[1] = (uint8_t)(value >> 16); at[2] = (uint8_t)(value >> 8); at[3] = (uint8_t)value;
    return at + 4;
}

static inline uint8_t *put64(uint8_t *at, uint64_t value) {
    return put32(put32(at, (uint32_t)(value >> 32)), (uint32_t)value);
}

/* `from` may be NULL for no bytes, as in a span without a value: memcpy may not have that. */
static inline uint8_t *put(uint8_t *at, const void *from, size_t bytes) {
    if (bytes != 0)
        memcpy(at, from, bytes);
    return at + bytes;
}

static inline const uint8_t *find(const uint8_t *in, size_t bytes, const char *what, size_t what_bytes) {
    return what_bytes > bytes ? NULL : memmem(in, bytes, what, what_bytes);
}

/* Java's String.hashCode of ASCII. */
static inline int64_t hash_of(const uint8_t *tag, size_t bytes) {
    uint32_t code = 0;
    for (size_t index = 0; index < bytes; index++)
        code = 31 * code + tag[index];
    return (int32_t)code;
}

typedef struct {
    const uint8_t *at;
    size_t bytes;
} Span;

/* A record whose flag and times of consumption are 0; of a plain one sys flag and prepared position are, too. */
typedef struct {
    int64_t position, queue_offset, stored_ms, born_ms;
    int32_t queue_id;
    Span born_host, packed_topic, properties, added, body;
    int needs_end;  /* the properties don't end with 0x02 */
    int32_t sys_flag;
    int64_t prepared_position;
    const uint8_t *body_crc;  /* in a record of the same body; NULL: to be computed */
} Record;

static inline size_t size_of_record(const Record *record) {
    return RECORD_FIXED_BYTES + record->born_host.bytes + record->packed_topic.bytes + record->properties.bytes + (size_t)record->needs_end +
           record->added.bytes + record->body.bytes;
}

/* Calls Python's crc32 for bytes that lie in the object being made; -1 with an error set. */
int crc_of(PyObject *crc32, const uint8_t *data, size_t bytes, uint32_t *crc);

/* Writes one record, which has `size` bytes, and returns where the next one begins; NULL with an error set. */
uint8_t *put_record(uint8_t *at, uint32_t size, const Record *record, PyObject *crc32);

/* The tags code of a message's properties: 1 if it is in `code`, 0 if Python has to say (a tag that isn't ASCII, a name
   that stands there twice or inside of another). */
int code_of_tag(const uint8_t *properties, size_t bytes, int64_t *code);

PyObject *take_native_sends(PyObject *module, PyObject *arguments);
PyObject *take_json_sends(PyObject *module, PyObject *arguments);
/* _compiled_copied.c */
PyObject *take_copied(PyObject *module, PyObject *arguments);
/* _compiled_received.c */
PyObject *received_head(PyObject *module, PyObject *arguments);
PyObject *record_columns(PyObject *module, PyObject *arguments);

#endif
