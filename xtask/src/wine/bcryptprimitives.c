/* Wine 8 lacks this library, from which Rust's standard library takes random bytes. */
__declspec(dllimport) unsigned char __stdcall SystemFunction036(void *buffer, unsigned long length);

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *buffer, unsigned long long length) {
    while (length > 0) {
        unsigned long part = length < 0x40000000 ? (unsigned long)length : 0x40000000;
        if (!SystemFunction036(buffer, part)) return 0;
        buffer += part;
        length -= part;
    }
    return 1;
}
