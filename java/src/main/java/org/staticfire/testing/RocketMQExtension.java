package org.staticfire.testing;

import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.Parameter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.LifecycleMethodExecutionExceptionHandler;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import org.junit.platform.commons.support.AnnotationSupport;

/** What {@link RocketMQ} does: it injects a cluster, prepares it before each test, and adds a report to failures. */
final class RocketMQExtension
    implements BeforeAllCallback, BeforeEachCallback, AfterEachCallback, ParameterResolver, TestExecutionExceptionHandler,
        LifecycleMethodExecutionExceptionHandler {

    private static final Map<ClusterOptions, SharedStand> STANDS = new ConcurrentHashMap<>();
    private static final ExtensionContext.Namespace NAMESPACE = ExtensionContext.Namespace.create(RocketMQExtension.class);

    @Override
    public void beforeAll(ExtensionContext context) throws IllegalAccessException {
        for (Field field : fields(context.getRequiredTestClass(), true)) {
            inject(field, null, context);
        }
    }

    @Override
    public void beforeEach(ExtensionContext context) throws IllegalAccessException {
        for (Object instance : context.getRequiredTestInstances().getAllInstances()) {
            for (Field field : fields(instance.getClass(), false)) {
                inject(field, instance, context);
            }
            for (Field field : fields(instance.getClass(), true)) {
                prepared(field.getAnnotation(RocketMQ.class), context);
            }
            for (RocketMQ wanted : ofConstructor(instance.getClass())) {
                prepared(wanted, context);
            }
        }
    }

    private static void inject(Field field, Object instance, ExtensionContext context) throws IllegalAccessException {
        if (field.getType() != RocketMQStand.class || Modifier.isFinal(field.getModifiers())) {
            throw new IllegalStateException("@RocketMQ " + field + ": the field must be a RocketMQStand, and not final");
        }
        RocketMQ wanted = field.getAnnotation(RocketMQ.class);
        field.setAccessible(true);
        field.set(instance, instance == null ? shared(wanted).stand() : prepared(wanted, context));
    }

    private static List<Field> fields(Class<?> type, boolean ofClass) {
        return AnnotationSupport.findAnnotatedFields(type, RocketMQ.class).stream()
            .filter(field -> Modifier.isStatic(field.getModifiers()) == ofClass)
            .collect(Collectors.toList());
    }

    private static List<RocketMQ> ofConstructor(Class<?> type) {
        List<RocketMQ> found = new ArrayList<>();
        for (Constructor<?> constructor : type.getDeclaredConstructors()) {
            for (Parameter parameter : constructor.getParameters()) {
                if (parameter.isAnnotationPresent(RocketMQ.class)) {
                    found.add(parameter.getAnnotation(RocketMQ.class));
                }
            }
        }
        return found;
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.isAnnotated(RocketMQ.class) && parameter.getParameter().getType() == RocketMQStand.class;
    }

    /** A cluster for a test is prepared; one for a constructor or @BeforeAll isn't, since tests are prepared later. */
    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        RocketMQ wanted = parameter.findAnnotation(RocketMQ.class).orElseThrow();
        Executable executable = parameter.getDeclaringExecutable();
        boolean isOfTest = context.getTestMethod().isPresent() && !(executable instanceof Constructor);
        return isOfTest ? prepared(wanted, context) : shared(wanted).stand();
    }

    private static SharedStand shared(RocketMQ wanted) {
        ClusterOptions options =
            ClusterOptions.DEFAULT.withBrokers(wanted.brokers()).withSettings(wanted.settings());
        return STANDS.computeIfAbsent(options, one -> new SharedStand(Launch.shared(one)));
    }

    /** Return the cluster, prepared once for this test, however many fields and parameters name it. */
    private static RocketMQStand prepared(RocketMQ wanted, ExtensionContext context) {
        SharedStand shared = shared(wanted);
        UsedStands used = used(context);
        if (used.stands.putIfAbsent(shared, Boolean.TRUE) == null) {
            shared.prepare(context.getUniqueId(), wanted.reset());
        }
        shared.createMissing(Set.of(wanted.topics()));
        return shared.stand();
    }

    private static UsedStands used(ExtensionContext context) {
        return context.getStore(NAMESPACE).getOrComputeIfAbsent(UsedStands.class, key -> new UsedStands(), UsedStands.class);
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
