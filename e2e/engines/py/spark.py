"""A Spark that carries out one SQL statement per line of input.

The first line says where its jars are and which folder is its own. Each answer is a line: rows, or what the exception says.
"""

import json
import os
import sys

# The JVM writes to standard output when it likes; answers go where nobody else writes.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

from pyspark.sql import SparkSession  # noqa: E402

MARK = "spark.databricks.delta.commitInfo.userMetadata"


def say(**answer):
    print(json.dumps(answer, default=str), file=answers, flush=True)


def session(jars, folder):
    settings = {
        "spark.jars": ",".join(jars),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": os.path.join(folder, "warehouse"),
        "spark.local.dir": folder,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Small tables, two cores, a short life: what would be worth it later is not.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("txcoord")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def carry_out(spark, request):
    if request["mark"]:
        spark.conf.set(MARK, request["mark"])
    else:
        spark.conf.unset(MARK)
    return [row.asDict() for row in spark.sql(request["sql"]).collect()]


def kind_of(e):
    """The exception's class, of Java's side where there is one."""
    java = getattr(e, "java_exception", None) or getattr(e, "_origin", None)
    return type(e).__name__ if java is None else java.getClass().getName()


def main():
    spark = session(**json.loads(sys.stdin.readline()))
    say(rows=[])
    for line in sys.stdin:
        try:
            say(rows=carry_out(spark, json.loads(line)))
        except Exception as e:  # every refusal is an answer
            say(kind=kind_of(e), text=str(e)[:3000])


main()
