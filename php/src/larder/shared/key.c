// The file of src/values, compiled for this module: phpize builds an object once for all modules.
#include "../../values/key.c"
