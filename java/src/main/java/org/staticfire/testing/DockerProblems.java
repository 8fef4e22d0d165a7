package org.staticfire.testing;

/** Explains why a container doesn't start, where the exception of Testcontainers names only the symptom. */
final class DockerProblems {
    static final String HELPER_IMAGES =
        "Testcontainers can't fetch its own helper images (testcontainers/ryuk, alpine). Where no image registry can be"
            + " reached, as behind some proxies, set two environment variables: TESTCONTAINERS_RYUK_DISABLED=true"
            + " (containers are then removed when the tests end, but not if they are killed), and"
            + " TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1 (the address of the Docker engine, as tests reach it)";

    private DockerProblems() {}

    /** The exception that a user sees: the same one if nothing is known about it. */
    static RuntimeException explained(RuntimeException error, String image) {
        String words = allWords(error);
        if (words.contains("ryuk") || words.contains("alpine")) {
            return new StaticfireException(HELPER_IMAGES, error);
        }
        if (words.contains("Could not find a valid Docker environment")) {
            return new StaticfireException("no Docker engine responds: start it, or install the staticfire command,"
                + " with which tests need no Docker: pip install staticfire", error);
        }
        if (words.contains("Can't get Docker image") || words.contains("Failed to pull image")) {
            return new StaticfireException("there is no image " + image + ": build it in a checkout of staticfire with"
                + " `docker build -t staticfire .`, or name another one by the property staticfire.image", error);
        }
        return error;
    }

    private static String allWords(Throwable error) {
        StringBuilder words = new StringBuilder();
        for (Throwable one = error; one != null; one = one.getCause()) {
            words.append(one.getMessage()).append('\n');
        }
        return words.toString();
    }
}
