package org.staticfire.testing;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Member;
import java.lang.reflect.Modifier;
import java.lang.reflect.Parameter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.platform.commons.support.AnnotationSupport;
import org.opentest4j.TestAbortedException;

/** One use of the annotation, and the cluster that it means. */
final class Declared {
    // They run until the program ends, so that consumers of a Spring context, which end last, never lose them.
    private static final Map<List<Object>, SharedStand> STANDS = new ConcurrentHashMap<>();
    // What didn't start isn't tried again by each test: in Docker, without a registry, each try takes minutes.
    private static final Map<List<Object>, RuntimeException> FAILED = new ConcurrentHashMap<>();

    private final RocketMQ wanted;
    private final Class<?> owner;

    Declared(RocketMQ wanted, Member member) {
        this.wanted = wanted;
        this.owner = member.getDeclaringClass();
    }

    private Declared(Field field) {
        this(field.getAnnotation(RocketMQ.class), field);
        if (field.getType() != RocketMQStand.class || Modifier.isFinal(field.getModifiers())) {
            throw new IllegalStateException("@RocketMQ " + field + ": the field must be a RocketMQStand, and not final");
        }
    }

    static Map<Field, Declared> fieldsOf(Class<?> type, boolean isStatic) {
        Map<Field, Declared> found = new LinkedHashMap<>();
        for (Field field : AnnotationSupport.findAnnotatedFields(type, RocketMQ.class)) {
            if (Modifier.isStatic(field.getModifiers()) == isStatic) {
                found.put(field, new Declared(field));
            }
        }
        return found;
    }

    static List<Declared> constructorOf(Class<?> type) {
        List<Declared> found = new ArrayList<>();
        for (Constructor<?> constructor : type.getDeclaredConstructors()) {
            for (Parameter parameter : constructor.getParameters()) {
                if (parameter.isAnnotationPresent(RocketMQ.class)) {
                    found.add(new Declared(parameter.getAnnotation(RocketMQ.class), constructor));
                }
            }
        }
        return found;
    }

    RocketMQ wanted() {
        return wanted;
    }

    boolean isOfClass() {
        return wanted.scope() == Scope.CLASS;
    }

    /** The cluster; it starts if it is the first use. */
    SharedStand shared() {
        ClusterOptions options = ClusterOptions.DEFAULT.withBrokers(wanted.brokers()).withSettings(wanted.settings());
        List<Object> key = List.of(options, isOfClass() ? owner : Scope.TEST);
        RuntimeException failed = FAILED.get(key);
        if (failed != null) {
            throw new StaticfireException("the cluster didn't start for an earlier test: " + failed.getMessage(), failed);
        }
        return STANDS.computeIfAbsent(key, one -> started(key, options));
    }

    private SharedStand started(List<Object> key, ClusterOptions options) {
        try {
            return new SharedStand(new RocketMQStand(Launch.forTests(options, isOfClass(), System.getenv())));
        } catch (TestAbortedException skipped) {
            throw skipped;
        } catch (RuntimeException error) {
            FAILED.put(key, error);
            throw error;
        }
    }
}
