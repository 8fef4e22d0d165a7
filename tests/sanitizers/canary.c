/* One fault of each kind that the sanitizers have to see, and one call without any. Built with the flags of the twin. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <string.h>

/* The sum of the bytes up to `count`, which may be beyond their end. */
static PyObject *read_bytes(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_buffer data;
    Py_ssize_t count;
    unsigned sum = 0;
    if (!PyArg_ParseTuple(arguments, "y*n", &data, &count))
        return NULL;
    for (Py_ssize_t at = 0; at < count; at++)
        sum += ((const unsigned char *)data.buf)[at];
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(sum);
}

/* A new bytes object of `size` ones, of which `count` are written. */
static PyObject *write_bytes(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_ssize_t size, count;
    if (!PyArg_ParseTuple(arguments, "nn", &size, &count))
        return NULL;
    PyObject *made = PyBytes_FromStringAndSize(NULL, size);
    for (Py_ssize_t at = 0; made != NULL && at < count; at++)
        PyBytes_AS_STRING(made)[at] = 1;
    return made;
}

static PyObject *add_to_largest(PyObject *Py_UNUSED(module), PyObject *arguments) {
    int number;
    if (!PyArg_ParseTuple(arguments, "i", &number))
        return NULL;
    return PyLong_FromLong(INT_MAX + number);
}

static PyObject *read_freed(PyObject *Py_UNUSED(module), PyObject *arguments) {
    int is_early;
    if (!PyArg_ParseTuple(arguments, "p", &is_early))
        return NULL;
    volatile int *number = PyMem_Malloc(sizeof *number);
    if (number == NULL)
        return PyErr_NoMemory();
    *number = 1;
    if (is_early)
        PyMem_Free((void *)number);
    int read = *number;
    if (!is_early)
        PyMem_Free((void *)number);
    return PyLong_FromLong(read);
}

/* Copies no bytes, from somewhere or from NULL. */
static PyObject *copy_nothing(PyObject *Py_UNUSED(module), PyObject *arguments) {
    int is_somewhere;
    char to[1] = {0};
    if (!PyArg_ParseTuple(arguments, "p", &is_somewhere))
        return NULL;
    const char *volatile from = is_somewhere ? "" : NULL;  /* volatile: else the compiler itself refuses it */
    memcpy(to, from, (size_t)to[0]);
    return PyLong_FromLong(to[0]);
}

static PyMethodDef methods[] = {
    {"read_bytes", read_bytes, METH_VARARGS, NULL},
    {"write_bytes", write_bytes, METH_VARARGS, NULL},
    {"add_to_largest", add_to_largest, METH_VARARGS, NULL},
    {"read_freed", read_freed, METH_VARARGS, NULL},
    {"copy_nothing", copy_nothing, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "canary", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_canary(void) { return PyModule_Create(&definition); }
