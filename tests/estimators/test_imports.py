import subprocess
import sys


def test_importing_sitewise_brings_in_no_heavy_library():
    program = (
        "import sys, sitewise\n"
        "sitewise.GPClassifier, sitewise.GPRegressor, sitewise.load\n"
        "found = {'matplotlib', 'optax', 'typer', 'pandas', 'rich'} & set(sys.modules)\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
