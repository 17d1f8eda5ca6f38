declare const __GRIDMETER_VERSION__: string | undefined;

/** The version of package.json, which the build compiles in; `development` in the sources. */
export const VERSION = typeof __GRIDMETER_VERSION__ === "undefined" ? "development" : __GRIDMETER_VERSION__;
