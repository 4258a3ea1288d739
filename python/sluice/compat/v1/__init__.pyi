from sluice import *
from sluice._stubs.compat.v1 import *
