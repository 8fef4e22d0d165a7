package org.staticfire.testing;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Provides a {@link RocketMQStand} to a field or a parameter of a JUnit 5 test.
 *
 * <pre>{@code
 * class OrdersTest {
 *     @RocketMQ(topics = "orders") RocketMQStand stand;
 * }
 * }</pre>
 *
 * <p>Tests of one program share a cluster if they need the same brokers and settings. It is reset before each test. When
 * a test fails, its exception says why groups have a backlog.
 */
@Documented
@Target({ElementType.FIELD, ElementType.PARAMETER})
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(RocketMQExtension.class)
public @interface RocketMQ {
    /** The name of the lock for tests that run in parallel: {@code @ResourceLock(RocketMQ.LOCK)} on each class. */
    String LOCK = "org.staticfire.testing.RocketMQ";

    /** The topics that exist when a test begins. */
    String[] topics() default {};

    /** The number of brokers: broker-a, broker-b ... */
    int brokers() default 1;

    /** Settings under RocketMQ's names, such as {@code "autoCreateTopicEnable=false"}. */
    String[] settings() default {};

    /** Whether each test finds an empty cluster, or the tests of a class share what they make in it. */
    Scope scope() default Scope.TEST;
}
