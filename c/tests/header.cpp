// The header also compiles as C++, and the program links.
#include <larder.h>

int main() {
    return larder_abi_version() == LARDER_ABI_VERSION ? 0 : 1;
}
