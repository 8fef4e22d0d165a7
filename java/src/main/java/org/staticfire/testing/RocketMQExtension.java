package org.staticfire.testing;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.LifecycleMethodExecutionExceptionHandler;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;

/**
 * What {@link RocketMQ} does: it injects a cluster, prepares it before each test, and adds a report to failures.
 *
 * <p>For static fields and parameters of {@code @BeforeAll} a cluster starts, and has its topics, before the first test:
 * a Spring context that starts then finds them. Fields and parameters of a test are prepared for each test, once,
 * however many there are. JUnit doesn't call a method of an extension before a constructor for each test, so parameters
 * of constructors are prepared after it.
 */
final class RocketMQExtension
    implements BeforeAllCallback, BeforeEachCallback, AfterEachCallback, ParameterResolver, TestExecutionExceptionHandler,
        LifecycleMethodExecutionExceptionHandler {

    private static final ExtensionContext.Namespace NAMESPACE = ExtensionContext.Namespace.create(RocketMQExtension.class);

    @Override
    public void beforeAll(ExtensionContext context) throws IllegalAccessException {
        for (Map.Entry<Field, Declared> one : Declared.fieldsOf(context.getRequiredTestClass(), true).entrySet()) {
            inject(one.getKey(), null, started(one.getValue()));
        }
    }

    @Override
    public void beforeEach(ExtensionContext context) throws IllegalAccessException {
        for (Object instance : context.getRequiredTestInstances().getAllInstances()) {
            Declared.fieldsOf(instance.getClass(), true).values().forEach(one -> prepared(one, context));
            Declared.constructorOf(instance.getClass()).forEach(one -> prepared(one, context));
            for (Map.Entry<Field, Declared> one : Declared.fieldsOf(instance.getClass(), false).entrySet()) {
                inject(one.getKey(), instance, prepared(one.getValue(), context));
            }
        }
    }

    private static void inject(Field field, Object instance, RocketMQStand stand) throws IllegalAccessException {
        field.setAccessible(true);
        field.set(instance, stand);
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.isAnnotated(RocketMQ.class) && parameter.getParameter().getType() == RocketMQStand.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        RocketMQ wanted = parameter.findAnnotation(RocketMQ.class).orElseThrow();
        Declared declared = new Declared(wanted, parameter.getDeclaringExecutable());
        if (parameter.getDeclaringExecutable() instanceof Constructor) {
            return declared.shared().stand();
        }
        return context.getTestMethod().isPresent() ? prepared(declared, context) : started(declared);
    }

    /** Start the cluster for what comes before the first test. */
    private static RocketMQStand started(Declared declared) {
        SharedStand shared = declared.shared();
        shared.settle();
        shared.createMissing(Set.of(declared.wanted().topics()));
        return shared.stand();
    }

    private static RocketMQStand prepared(Declared declared, ExtensionContext context) {
        SharedStand shared = declared.shared();
        if (used(context).stands.putIfAbsent(shared, Boolean.TRUE) == null) {
            if (declared.isOfClass()) {
                shared.settle();
            } else {
                shared.empty(context.getUniqueId());
            }
        }
        shared.createMissing(Set.of(declared.wanted().topics()));
        return shared.stand();
    }

    private static UsedStands used(ExtensionContext context) {
        ExtensionContext.Store store = context.getStore(NAMESPACE);
        UsedStands used = store.get(UsedStands.class, UsedStands.class);
        if (used == null) {
            used = new UsedStands();
            store.put(UsedStands.class, used);
        }
        return used;
    }

    /** The clusters of one test. */
    private static final class UsedStands {
        private final Map<SharedStand, Boolean> stands = new ConcurrentHashMap<>();
    }

    @Override
    public void afterEach(ExtensionContext context) {
        used(context).stands.keySet().forEach(shared -> shared.release(context.getUniqueId()));
    }

    @Override
    public void handleTestExecutionException(ExtensionContext context, Throwable failure) throws Throwable {
        throw reported(context, failure);
    }

    @Override
    public void handleBeforeEachMethodExecutionException(ExtensionContext context, Throwable failure) throws Throwable {
        throw reported(context, failure);
    }

    /** Add the report to the failure, before @AfterEach closes the consumers. A skipped test needs none. */
    private static Throwable reported(ExtensionContext context, Throwable failure) {
        if (!failure.getClass().getName().endsWith("TestAbortedException")) {
            used(context).stands.keySet().forEach(shared -> failure.addSuppressed(new FailureReport(report(shared.stand()))));
        }
        return failure;
    }

    private static String report(RocketMQStand stand) {
        try {
            return stand.report();
        } catch (StaticfireException error) {
            return "the cluster can't be examined: " + error.getMessage();
        }
    }
}
