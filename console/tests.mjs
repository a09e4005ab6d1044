// All unit tests as one module.
import.meta.glob("./src/**/*.test.ts", { eager: true });
