/** The package with the native module for a platform. */

const PACKAGE = 'larder-cache';
const PLATFORMS = ['linux-x64-gnu', 'linux-x64-musl', 'linux-arm64-gnu', 'linux-arm64-musl'];

/** Returns the name of the package with the native module for the running process. */
export function platformName(running: { platform: string; arch: string }): string {
    const libc = running.platform === 'linux' ? `-${isMusl() ? 'musl' : 'gnu'}` : '';
    const name = `${running.platform}-${running.arch}${libc}`;
    if (!PLATFORMS.includes(name)) {
        throw new Error(`${PACKAGE} has no native module for ${name}, only for ${PLATFORMS.join(', ')}`);
    }
    return `${PACKAGE}-${name}`;
}

/** True if the process uses musl: its report names no version of glibc. */
function isMusl(): boolean {
    const report = process.report?.getReport() as { header?: { glibcVersionRuntime?: string } } | undefined;
    return report?.header !== undefined && report.header.glibcVersionRuntime === undefined;
}
