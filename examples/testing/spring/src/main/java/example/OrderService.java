package example;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** A service that takes orders, and bills those that are paid. */
@SpringBootApplication
public class OrderService {
    public static void main(String[] arguments) {
        SpringApplication.run(OrderService.class, arguments);
    }
}
