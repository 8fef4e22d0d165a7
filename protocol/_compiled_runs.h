/* What runs of sends and ends of transactions share: the run, where its messages go, and what reads their frames. */

#ifndef STATICFIRE_COMPILED_RUNS_H
#define STATICFIRE_COMPILED_RUNS_H

#include "_compiled.h"

enum { SEND_MESSAGE = 10, END_TRANSACTION = 37, SEND_MESSAGE_V2 = 310, SEND_MANY = 9001 };
enum { ONEWAY_FLAG = 2, HASHES = 64 };

typedef struct {
    PyObject *bytes;
    size_t size, room;
} Growing;

typedef struct {
    Span topic;
    int32_t queue_id, next;  /* of the same hash; -1 is the last */
    PyObject *found;         /* queue, packed topic, next offset: what Python's `find` says */
    Span packed_topic;
    int64_t next_offset;
    Growing entries;
    long long record_bytes;  /* of these entries */
} Place;

typedef struct {
    Py_buffer data, added, born_host;
    PyObject *find, *crc32;
    PyObject *recent, *find_halves;  /* of transactions; NULL: none is taken */
    long long timeout_ms;            /* after which a half message is asked about */
    long long position, room_end, record_bytes_max, stored_ms, last_position;
    Py_ssize_t at, stop, body_bytes_max;
    int has_slaves;  /* sends wait for them: one with WAIT=false isn't plain */
    Growing log, answers, text, more;
    Place *places;
    size_t place_count, place_room;
    int32_t heads[HASHES], halves_place;
    uint32_t *order;  /* of each message, its place: so that those of a frame can be taken back */
    size_t messages, order_room;
    PyObject *begun, *kept, *ends;  /* what Python is told of transactions: dicts and a list, once there is one */
    PyObject *group;                /* of the last half message */
} Run;

/* A message as its frame tells it, and where it came to lie. */
typedef struct {
    Span topic, properties, body, unique_id, group;
    int64_t born_ms, tags_code, position, queue_offset;
    int32_t queue_id, sys_flag;
    int is_half;
} Send;

/* The end of a half message, as its frame tells it. */
typedef struct {
    Span group;
    int64_t queue_offset, position, kind, opaque;
    int is_oneway;
} End;

/* _compiled_sends.c: where `more` bytes go, NULL with an error set; */
uint8_t *grow(Growing *growing, size_t more);
/* the place of a message, -1 if there is none, or with an error set; */
int place_of(Run *run, const Send *send);
/* one more place with what Python found, which becomes the run's; -1 with an error set; */
int add_place(Run *run, PyObject *found, int32_t queue_id, int32_t next);
/* writes a record that has room, with its entry: 1, or -1 with an error set. Its position and offset are filled in. */
int add_record(Run *run, int index, Record *record, int64_t tags_code);

/* the new entries of each queue: what `Packed` says of them; NULL with an error set; */
PyObject *rows_of(Run *run);
/* frees what `place_of` and `rows_of` keep. */
void free_places(Run *run);

/* _compiled_transactions.c, all of them 1 done, 0 it isn't plain, -1 an error is set: */
int make_half(Run *run, Send *send, int *index, Span *added);
int note_half(Run *run, const Send *send, size_t record_bytes);
int end_half(Run *run, const End *end);

static inline int is(const uint8_t *name, size_t bytes, const char *wanted, size_t wanted_bytes) {
    return bytes == wanted_bytes && memcmp(name, wanted, wanted_bytes) == 0;
}

#endif
