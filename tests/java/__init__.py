"""The Maven module in java/, and the examples that use it: JUnit and Spring Boot."""
