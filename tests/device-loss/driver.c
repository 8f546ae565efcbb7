// Vulkan driver that passes all calls to the driver TX_DRIVER, until it has submitted TX_SUBMISSIONS times.
// After that it reports, as the driver of a GPU that hangs or is restarted does, that the device is lost.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_LOST = -4 };  // VK_ERROR_DEVICE_LOST

typedef void (*Function)(void);
typedef Function (*Lookup)(void *object, const char *name);
typedef int32_t (*Submit)(void *queue, uint32_t count, const void *submissions, uint64_t fence);

static Submit submit;
static Lookup of_device;
static long left;

static Function in_driver(const char *name) {
    static void *library;
    if (!library) {
        const char *path = getenv("TX_DRIVER");
        library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (!library) {
            fprintf(stderr, "TX_DRIVER: %s\n", path ? dlerror() : "not set");
            abort();
        }
        const char *count = getenv("TX_SUBMISSIONS");
        left = count ? atol(count) : 0;
    }
    return (Function)dlsym(library, name);
}

static int32_t submit_some(void *queue, uint32_t count, const void *submissions, uint64_t fence) {
    return left-- > 0 ? submit(queue, count, submissions, fence) : DEVICE_LOST;
}

static Function find_of_device(void *device, const char *name) {
    Function found = of_device(device, name);
    if (!strcmp(name, "vkQueueSubmit")) {
        submit = (Submit)found;
        return (Function)submit_some;
    }
    return found;
}

int32_t vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
    return ((int32_t (*)(uint32_t *))in_driver("vk_icdNegotiateLoaderICDInterfaceVersion"))(version);
}

Function vk_icdGetPhysicalDeviceProcAddr(void *instance, const char *name) {
    Lookup found = (Lookup)in_driver("vk_icdGetPhysicalDeviceProcAddr");
    return found ? found(instance, name) : NULL;
}

Function vk_icdGetInstanceProcAddr(void *instance, const char *name) {
    Function found = ((Lookup)in_driver("vk_icdGetInstanceProcAddr"))(instance, name);
    if (!strcmp(name, "vkGetDeviceProcAddr")) {
        of_device = (Lookup)found;
        return (Function)find_of_device;
    }
    return found;
}
