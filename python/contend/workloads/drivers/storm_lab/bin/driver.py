"""The driver's process: a traced program's functions are those of the modules it imports."""

from storm_lab import driver, process

if __name__ == "__main__":
    process.run(driver.main)
