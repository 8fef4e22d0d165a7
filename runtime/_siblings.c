/* Two calls that Python doesn't have, for processes that share one import; see siblings.py.

   fork_sibling() -> int         like os.fork, but the new process is a child of our parent, not of us
   set_command_line(words)       what `ps` shows for this process

   Both raise OSError where they aren't possible: another kernel, C library or processor. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>

#if defined(__linux__)
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__linux__) && defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))

/* Return where glibc keeps the id of this thread, which a fork must set in the child; NULL if it can't be found. */
static pid_t *thread_id_place(void) {
    pid_t *place = NULL;
    if (prctl(PR_GET_TID_ADDRESS, &place, 0, 0, 0) != 0 || place == NULL || *place != getpid())
        return NULL;
    return place;
}

static PyObject *can_fork(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(arguments)) {
    return PyBool_FromLong(thread_id_place() != NULL);
}

/* glibc's fork takes no flags, so this is the system call, and what glibc would do besides: one thread, no locks. */
static PyObject *fork_sibling(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(arguments)) {
    pid_t *place = thread_id_place();
    if (place == NULL) {
        errno = ENOSYS;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    unsigned long flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
    PyOS_BeforeFork();
#if defined(__x86_64__)
    long pid = syscall(SYS_clone, flags, NULL, NULL, place, NULL);
#else
    long pid = syscall(SYS_clone, flags, NULL, NULL, NULL, place);
#endif
    int error = errno;
    if (pid == 0)
        PyOS_AfterFork_Child();
    else
        PyOS_AfterFork_Parent();
    if (pid < 0) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyLong_FromLong(pid);
}

/* Find the memory of the command line: numbers 48 and 49 of /proc/self/stat. Return its size, or 0. */
static size_t command_line_memory(char **start) {
    char text[2048];
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, sizeof(text) - 1);
    close(file);
    if (length <= 0)
        return 0;
    text[length] = 0;
    char *at = strrchr(text, ')');  /* The name of the program, which may contain spaces, is number 2. */
    for (int number = 2; at != NULL && number < 48; number++)
        at = strchr(at + 1, ' ');
    unsigned long first, end;
    if (at == NULL || sscanf(at, " %lu %lu", &first, &end) != 2 || first == 0 || end <= first)
        return 0;
    *start = (char *)first;
    return end - first;
}

static PyObject *set_command_line(PyObject *Py_UNUSED(module), PyObject *arguments) {
    const char *words;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(arguments, "y#:set_command_line", &words, &length))
        return NULL;
    char *start = NULL;
    size_t size = command_line_memory(&start);
    if ((size_t)length > size || size == 0) {
        errno = ENOSPC;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    memcpy(start, words, (size_t)length);
    memset(start + length, 0, size - (size_t)length);
    Py_RETURN_NONE;
}

#else

static PyObject *impossible(void) {
    errno = ENOSYS;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *can_fork(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(arguments)) {
    Py_RETURN_FALSE;
}

static PyObject *fork_sibling(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(arguments)) {
    return impossible();
}

static PyObject *set_command_line(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(arguments)) {
    return impossible();
}

#endif

static PyMethodDef methods[] = {
    {"can_fork", can_fork, METH_NOARGS, "can_fork() -> bool: whether fork_sibling works on this system"},
    {"fork_sibling", fork_sibling, METH_NOARGS, "fork_sibling() -> int: 0 in the new process, a child of our parent"},
    {"set_command_line", set_command_line, METH_VARARGS, "set_command_line(words: bytes): what ps shows"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_siblings", "Processes that share one import; see _siblings.c.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__siblings(void) { return PyModule_Create(&definition); }
