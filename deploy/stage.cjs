// The stage when no --stage is given: a local invocation must not ask AWS for the addresses of a deployment.
module.exports.fallback = process.argv.slice(2, 4).join(" ") === "invoke local" ? "local" : "dev";
