/* The kind far as a library, for the tests in Python. */
#define FAR_API __attribute__((visibility("default")))
#include "support/far.h"
