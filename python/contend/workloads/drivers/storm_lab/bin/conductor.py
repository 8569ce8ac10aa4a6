"""The conductor's process: a traced program's functions are those of the modules it imports."""

from storm_lab import conductor, process

if __name__ == "__main__":
    process.run(conductor.main)
