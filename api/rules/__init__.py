"""The rules of the API: `validation.validate` checks an object, with a module for each part."""
