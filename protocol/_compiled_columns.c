/* record_columns: the columns of many stored records, as Arrow's buffers; see _compiled.c for what all twins keep.

   Its Python is pipeline/records.py and pipeline/property_columns.py. Plain is what nearly all answers are: no body is
   compressed, properties are ASCII and whole (`name 01 value`, 02 between them). Of anything else the whole answer is left
   to Python, which words what is wrong.

   Everything is measured first, with each length checked against what is left, and then written into room of that size. */

#include "_compiled.h"

enum { NAMES_MAX = 8, SYS_FLAG_COMPRESSED = 1 };

typedef struct {
    const uint8_t *properties, *body;
    size_t properties_bytes, body_bytes;
} NativeParts;

/* One property of each record: Arrow's offsets and data, and which are there. */
typedef struct {
    const uint8_t *name;
    size_t name_bytes, used;
    Py_ssize_t nulls;
    PyObject *offsets, *data, *valid;
    int32_t *offset_at;
    uint8_t *data_at, *valid_at;
    const uint8_t *value;
    size_t value_bytes;
} Property;

/* Finds the parts of a record that has `left` bytes at most; returns its size, 0 if it isn't plain. */
static size_t native_parts(const uint8_t *from, size_t left, NativeParts *parts) {
    if (left < RECORD_BYTES_MIN)
        return 0;
    size_t size = get32(from + RECORD_BYTES_AT);
    if (size < RECORD_BYTES_MIN || size > left || get32(from + COVERED_AT + 1) != RECORD_MAGIC ||
        (get32(from + SYS_FLAG_AT) & SYS_FLAG_COMPRESSED) != 0)
        return 0;
    size_t host_bytes = from[BORN_HOST_HEAD_AT + 1];
    if (from[BORN_HOST_HEAD_AT] != 0xC4 || (host_bytes != HOST_V4_BYTES && host_bytes != HOST_V6_BYTES))
        return 0;
    size_t at = BORN_HOST_AT + host_bytes;
    if (at + 3 > size || from[at] != 0xDA)
        return 0;
    at += 3 + get16(from + at + 1);
    if (at + 3 > size || from[at] != 0xC5)
        return 0;
    parts->properties_bytes = get16(from + at + 1);
    parts->properties = from + at + 3;
    at += 3 + parts->properties_bytes;
    if (at + 5 > size || from[at] != 0xC6 || get32(from + at + 1) != size - at - 5)
        return 0;
    parts->body = from + at + 5;
    parts->body_bytes = size - at - 5;
    return size;
}

static int is_ascii(const uint8_t *text, size_t bytes) {
    uint64_t all = 0, eight;
    for (; bytes >= 8; bytes -= 8, text += 8) {
        memcpy(&eight, text, 8);
        all |= eight;
    }
    for (; bytes != 0; bytes--)
        all |= *text++;
    return (all & 0x8080808080808080u) == 0;
}

/* Finds the values of the wanted properties, of a repeated one the last; 0 if the string isn't plain. */
static int find_values(const uint8_t *text, size_t bytes, Property *wanted, Py_ssize_t count) {
    for (Py_ssize_t index = 0; index < count; index++)
        wanted[index].value = NULL;
    if (!is_ascii(text, bytes))
        return 0;
    const uint8_t *end = text + bytes;
    while (text < end) {
        const uint8_t *entry_end = memchr(text, 2, (size_t)(end - text));
        if (entry_end == NULL)
            entry_end = end;  /* Java's clients leave the last one out */
        const uint8_t *name_end = memchr(text, 1, (size_t)(entry_end - text));
        if (name_end == NULL || name_end == text || name_end + 1 == entry_end)
            return 0;
        size_t name_bytes = (size_t)(name_end - text);
        for (Py_ssize_t index = 0; index < count; index++) {
            Property *one = &wanted[index];
            if (one->name_bytes == name_bytes && memcmp(one->name, text, name_bytes) == 0) {
                one->value = name_end + 1;
                one->value_bytes = (size_t)(entry_end - one->value);
                break;
            }
        }
        text = entry_end + 1;
    }
    return 1;
}

/* Counts records and the bytes of their bodies and properties; 0 if one isn't plain. */
static int measure_answers(PyObject *bodies, size_t skip, Py_ssize_t *count, size_t *body_bytes, size_t *properties_bytes) {
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(bodies); index++) {
        PyObject *body = PyList_GET_ITEM(bodies, index);
        if (!PyBytes_Check(body) || (size_t)PyBytes_GET_SIZE(body) < skip)
            return 0;
        const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(body);
        size_t end = (size_t)PyBytes_GET_SIZE(body);
        for (size_t at = skip; at < end;) {
            NativeParts parts;
            size_t size = native_parts(data + at, end - at, &parts);
            if (size == 0)
                return 0;
            at += size;
            *count += 1;
            *body_bytes += parts.body_bytes;
            *properties_bytes += parts.properties_bytes;
        }
    }
    return *body_bytes <= INT32_MAX && *properties_bytes <= INT32_MAX && *count < INT32_MAX / 8;
}

static void put_value(Property *one, Py_ssize_t row) {
    if (one->value == NULL) {
        one->nulls++;
    } else {
        memcpy(one->data_at + one->used, one->value, one->value_bytes);
        one->used += one->value_bytes;
        one->valid_at[row >> 3] |= (uint8_t)(1 << (row & 7));
    }
    one->offset_at[row + 1] = (int32_t)one->used;
}

/* The numbers of each record, and its body, where that is wanted. */
enum { OFFSETS, STORED, BORN, FLAGS, TIMES, BODY_OFFSETS, BODY_DATA, COLUMNS };

static int put_rows(PyObject *bodies, size_t skip, PyObject **columns, Property *wanted, Py_ssize_t names) {
    int64_t *offsets = (int64_t *)PyBytes_AS_STRING(columns[OFFSETS]);
    int64_t *stored = (int64_t *)PyBytes_AS_STRING(columns[STORED]);
    int64_t *born = (int64_t *)PyBytes_AS_STRING(columns[BORN]);
    int32_t *flags = (int32_t *)PyBytes_AS_STRING(columns[FLAGS]);
    int32_t *times = (int32_t *)PyBytes_AS_STRING(columns[TIMES]);
    int32_t *body_offsets = columns[BODY_OFFSETS] == NULL ? NULL : (int32_t *)PyBytes_AS_STRING(columns[BODY_OFFSETS]);
    uint8_t *body_data = columns[BODY_DATA] == NULL ? NULL : (uint8_t *)PyBytes_AS_STRING(columns[BODY_DATA]);
    size_t used = 0;
    Py_ssize_t row = 0;
    if (body_offsets != NULL)
        body_offsets[0] = 0;
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(bodies); index++) {
        PyObject *body = PyList_GET_ITEM(bodies, index);
        const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(body);
        size_t end = (size_t)PyBytes_GET_SIZE(body);
        for (size_t at = skip; at < end; row++) {
            const uint8_t *from = data + at;
            NativeParts parts;
            at += native_parts(from, end - at, &parts);
            offsets[row] = (int64_t)get64(from + QUEUE_OFFSET_AT);
            stored[row] = (int64_t)(get64(from + STORED_MS_AT) * 1000u);  /* Arrow's timestamps are microseconds */
            born[row] = (int64_t)(get64(from + BORN_MS_AT) * 1000u);
            flags[row] = (int32_t)get32(from + FLAG_AT);
            times[row] = (int32_t)get32(from + RECONSUME_TIMES_AT);
            if (body_offsets != NULL) {
                memcpy(body_data + used, parts.body, parts.body_bytes);
                used += parts.body_bytes;
                body_offsets[row + 1] = (int32_t)used;
            }
            if (names != 0 && !find_values(parts.properties, parts.properties_bytes, wanted, names))
                return 0;
            for (Py_ssize_t name = 0; name < names; name++)
                put_value(&wanted[name], row);
        }
    }
    return 1;
}

static int make_room(Property *one, Py_ssize_t rows, size_t properties_bytes) {
    one->offsets = PyBytes_FromStringAndSize(NULL, (rows + 1) * 4);
    one->data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)properties_bytes);
    one->valid = PyBytes_FromStringAndSize(NULL, (rows + 7) / 8);
    if (one->offsets == NULL || one->data == NULL || one->valid == NULL)
        return 0;
    one->offset_at = (int32_t *)PyBytes_AS_STRING(one->offsets);
    one->data_at = (uint8_t *)PyBytes_AS_STRING(one->data);
    one->valid_at = (uint8_t *)PyBytes_AS_STRING(one->valid);
    one->offset_at[0] = 0;
    memset(one->valid_at, 0, (size_t)(rows + 7) / 8);
    return 1;
}

static int make_columns(PyObject **columns, Py_ssize_t rows, size_t body_bytes, int with_body) {
    const Py_ssize_t bytes[] = {rows * 8, rows * 8, rows * 8, rows * 4, rows * 4, (rows + 1) * 4, (Py_ssize_t)body_bytes};
    for (int column = 0; column < (with_body ? COLUMNS : BODY_OFFSETS); column++)
        if ((columns[column] = PyBytes_FromStringAndSize(NULL, bytes[column])) == NULL)
            return 0;
    return 1;
}

static PyObject *properties_made(Property *wanted, Py_ssize_t names) {
    PyObject *made = PyTuple_New(names);
    for (Py_ssize_t name = 0; made != NULL && name < names; name++) {
        Property *one = &wanted[name];
        PyObject *three = NULL;
        if (_PyBytes_Resize(&one->data, (Py_ssize_t)one->used) == 0)
            three = Py_BuildValue("OOOn", one->offsets, one->data, one->valid, one->nulls);
        if (three == NULL)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, name, three);
    }
    return made;
}

static PyObject *columns_made(PyObject *bodies, size_t skip, Property *wanted, Py_ssize_t names, int with_body) {
    Py_ssize_t rows = 0;
    size_t body_bytes = 0, properties_bytes = 0;
    if (!measure_answers(bodies, skip, &rows, &body_bytes, &properties_bytes))
        Py_RETURN_NONE;
    PyObject *columns[COLUMNS] = {NULL};
    PyObject *result = NULL;
    int has_room = make_columns(columns, rows, body_bytes, with_body);
    for (Py_ssize_t name = 0; has_room && name < names; name++)
        has_room = make_room(&wanted[name], rows, properties_bytes);
    if (has_room && !put_rows(bodies, skip, columns, wanted, names)) {
        result = Py_NewRef(Py_None);
    } else if (has_room) {
        PyObject *properties = properties_made(wanted, names);
        PyObject *none = Py_None;
        if (properties != NULL)
            result = Py_BuildValue("nOOOOOOON", rows, columns[OFFSETS], columns[STORED], columns[BORN], columns[FLAGS],
                                   columns[TIMES], with_body ? columns[BODY_OFFSETS] : none,
                                   with_body ? columns[BODY_DATA] : none, properties);
    }
    for (int column = 0; column < COLUMNS; column++)
        Py_XDECREF(columns[column]);
    return result;
}

PyObject *record_columns(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *bodies, *names;
    Py_ssize_t skip;
    int with_body;
    if (!PyArg_ParseTuple(arguments, "O!nO!p:record_columns", &PyList_Type, &bodies, &skip, &PyTuple_Type, &names, &with_body))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    if (skip < 0 || count > NAMES_MAX) {
        PyErr_SetString(PyExc_ValueError, "record_columns: less than 0 bytes to skip, or too many names");
        return NULL;
    }
    Property wanted[NAMES_MAX];
    memset(wanted, 0, sizeof wanted);
    for (Py_ssize_t name = 0; name < count; name++) {
        PyObject *one = PyTuple_GET_ITEM(names, name);
        if (!PyBytes_Check(one)) {
            PyErr_SetString(PyExc_TypeError, "record_columns: a name is no bytes");
            return NULL;
        }
        wanted[name].name = (const uint8_t *)PyBytes_AS_STRING(one);
        wanted[name].name_bytes = (size_t)PyBytes_GET_SIZE(one);
    }
    PyObject *result = columns_made(bodies, (size_t)skip, wanted, count, with_body);
    for (Py_ssize_t name = 0; name < count; name++) {
        Py_XDECREF(wanted[name].offsets);
        Py_XDECREF(wanted[name].data);
        Py_XDECREF(wanted[name].valid);
    }
    return result;
}
