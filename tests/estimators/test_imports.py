import subprocess
import sys


def test_importing_sitewise_brings_in_no_heavy_library():
    program = (
        "import sys, sitewise\n"
        "found = {'matplotlib', 'optax', 'typer', 'pandas', 'rich'} & set(sys.modules)\n"
        "assert not found, found\n"
        "from sitewise import GPClassifier, GPRegressor, load\n"
        "assert 'GPClassifier' in dir(sitewise) and sitewise.estimators.load is load\n"
        "assert 'matplotlib' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
