/* datatype/timestamp.h (shim): all of it is in postgres.h */
#include "postgres.h"
