package org.staticfire.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** Exceptions of Testcontainers, as they are where something is missing, and what a user reads. */
class DockerProblemsTest {
    private static final String IMAGE = "staticfire:latest";

    @Test
    void withoutARegistryTheTwoVariablesAreNamed() {
        RuntimeException error = new IllegalStateException("Container startup failed",
            new IllegalStateException("Can't get Docker image: RemoteDockerImage(imageName=testcontainers/ryuk:0.12.0)"));
        String words = DockerProblems.explained(error, IMAGE).getMessage();
        assertTrue(words.contains("TESTCONTAINERS_RYUK_DISABLED=true"), words);
        assertTrue(words.contains("TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1"), words);
    }

    @Test
    void aMissingImageIsNamed() {
        RuntimeException error = new IllegalStateException("Can't get Docker image: RemoteDockerImage(" + IMAGE + ")");
        String words = DockerProblems.explained(error, IMAGE).getMessage();
        assertTrue(words.startsWith("there is no image staticfire:latest: build it"), words);
    }

    @Test
    void withoutAnEngineTheCommandIsNamed() {
        RuntimeException error = new IllegalStateException("Could not find a valid Docker environment. See logs");
        String words = DockerProblems.explained(error, IMAGE).getMessage();
        assertTrue(words.contains("pip install staticfire"), words);
    }

    @Test
    void otherExceptionsStayAsTheyAre() {
        RuntimeException error = new IllegalStateException("something else");
        assertSame(error, DockerProblems.explained(error, IMAGE));
        assertEquals(null, error.getCause());
    }
}
