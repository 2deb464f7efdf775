// The header is understood by C++ too, and links.
#include <larder.h>

int main() {
    return larder_abi_version() == LARDER_ABI_VERSION ? 0 : 1;
}
