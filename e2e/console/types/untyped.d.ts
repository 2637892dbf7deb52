// A library that the page loads without types.
declare const library: any;
export default library;
