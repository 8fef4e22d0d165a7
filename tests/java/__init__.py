"""The Maven module in java/, and the examples that use it: JUnit and Spring Boot.

- `reactor.py`: builds them together in a copy, and reads what their tests report; `pom.xml`: names them for Maven
- `test_java.py`: the module's own tests and the examples', on clusters that the command starts
- `test_sources.py`: what the Java sources repeat of the program is the same there
"""
